// The classic parameter server: dense weights on a server; workers pull them and push gradients, without waiting for
// each other (HogWild). Linear regression: the server finds w of y = w x.

#include <cstdio>
#include <troupe/troupe.hpp>

using namespace troupe;

class weights final : public remote_object {
 public:
  struct options {
    std::size_t size = 0;
    double lr = 0.1;

    static nn::option_fields<options> fields() {
      return nn::option_fields<options>()
          .whole("size", &options::size, 1)
          .real("lr", &options::lr, "a positive number", [](double x) { return x > 0; });
    }
  };
  explicit weights(const options& chosen) : w_(chosen.size), lr_(chosen.lr) {}

  tensor pull() const { return tensor::of<float>({w_.size()}, w_); }
  /// Returns how many gradients have been applied.
  std::int64_t push(const tensor& grad) {
    for (std::size_t i = 0; i < w_.size(); ++i) w_[i] -= lr_ * grad.as<float>()[i];
    return ++pushes_;
  }
  std::int64_t pushes() const { return pushes_; }

  named_tensors state_dict() const override { return {{"w", pull()}}; }
  void load_state_dict(const named_tensors& state) override {
    const auto w = state.at(0).second.as<float>();
    w_.assign(w.begin(), w.end());
  }

  static void describe(methods<weights>& m) {
    m.add("pull", &weights::pull);
    m.add("push", &weights::push);
    m.add("pushes", &weights::pushes);
  }

 private:
  std::vector<float> w_;
  float lr_;
  std::int64_t pushes_ = 0;
};
const registered<weights> types("weights");

constexpr std::size_t size = 8;
constexpr int pushes = 400;

task<> work(trainer me, remote_module<weights> server) {
  std::vector<float> grad(size);
  for (int step = 0; step < pushes; ++step) {
    const tensor w = co_await server.call(&weights::pull);
    // One sample: x is 1 at one index and 0 elsewhere, y = w x with the true weights 1, 2, 3, ...
    const std::size_t place = (step + me.rank() * 3) % size;
    grad.assign(size, 0);
    grad[place] = w.as<float>()[place] - (place + 1);
    co_await server.call(&weights::push, tensor::of<float>({size}, grad));
  }
}

task<> train(trainer me, remote_module<weights> server) {
  co_await work(me, server);
  if (me.rank() != 0) co_return;
  while (co_await server.call(&weights::pushes) < std::int64_t{pushes} * me.trainers()) {
  }
  const tensor w = co_await server.call(&weights::pull);
  std::printf("%u pushes of %u workers:", pushes * me.trainers(), me.trainers());
  for (const float one : w.as<float>()) std::printf(" %.3f", one);
  std::printf("\n");
}

int main(int argc, char** argv) {
  cluster cluster(argc, argv);
  auto server = cluster.server(0).make<weights>({.size = size, .lr = 0.2});
  cluster.run(4, train, server);
}
