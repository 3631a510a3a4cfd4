// A custom module on a server, other than an embedding: three trainers train one gate together, in front of a layer
// that each has a replica of. Then its state is saved and loaded into another gate on the last server, which is used.

#include <cmath>
#include <cstdio>
#include <troupe/troupe.hpp>

using namespace troupe;

/// y = x * sigmoid(w), elementwise.
class gate final : public nn::module {
 public:
  struct options {
    std::size_t features = 0;

    static nn::option_fields<options> fields() {
      return nn::option_fields<options>().whole("features", &options::features, 1);
    }
  };
  explicit gate(const options& chosen) : features_(chosen.features) {}

  std::string type() const override { return "gate"; }
  std::vector<nn::parameter> parameters() const override { return {{"weight", {features_}}}; }
  troupe::shape output(const tensor_view& input) const override {
    nn::check_features(*this, input, features_);
    return input.shape();
  }
  void forward(const nn::pass& /*how*/, const nn::pass_numbers& numbers) const override {
    const auto x = numbers.input.as<float>();
    for (std::size_t i = 0; i < x.size(); ++i) numbers.output[i] = x[i] * open(numbers, i);
  }
  void backward(const nn::pass& /*how*/, const nn::pass_numbers& numbers, const nn::gradients& of) const override {
    const auto x = numbers.input.as<float>();
    if (of.parameters) std::ranges::fill(of.parameters[0], 0.0F);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float s = open(numbers, i);
      if (of.input) of.input[i] = of.output[i] * s;
      if (of.parameters) of.parameters[0][i % features_] += of.output[i] * x[i] * s * (1 - s);
    }
  }

 private:
  float open(const nn::pass_numbers& numbers, std::size_t i) const {
    return 1 / (1 + std::exp(-numbers.parameters[0][i % features_]));
  }

  std::size_t features_;
};
const registered<gate> gates("gate");

/// Four samples: the class says whether the first feature is positive; the other features are noise.
tensor inputs(std::uint32_t rank, std::uint64_t step, std::vector<std::int64_t>& classes) {
  std::vector<float> x(4 * 8);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float angle = i * 37 + step * 11 + rank * 5;
    x[i] = std::sin(angle);
  }
  classes.clear();
  for (std::size_t n = 0; n < 4; ++n) classes.push_back(x[n * 8] > 0 ? 1 : 0);
  return tensor::of<float>({4, 8}, x);
}

task<> train(trainer me, remote_module<gate> first) {
  auto last = me.data_parallel(nn::linear(8, 2));
  distributed_optimizer optimizer(sgd{.lr = 0.5}, first, last);
  std::vector<std::int64_t> classes;
  for (const auto step : me.steps(200)) {
    auto context = me.new_context();
    auto hidden = co_await first.forward(context, inputs(me.rank(), step, classes));
    auto loss = nn::cross_entropy(context, last(context, hidden), classes);
    if (me.rank() == 0 && step % 50 == 0) std::printf("step %lu: loss %.4f\n", step, loss.item());
    co_await context.backward(loss);
    co_await optimizer.step(context);
  }
  if (me.rank() != 0) co_return;

  const auto state = co_await first.state_dict();  // after the last optimizer step
  auto other = co_await me.server(me.servers() - 1).make<gate>({.features = 8});
  co_await other.load_state_dict(state);
  const tensor x = inputs(0, 1000, classes);
  const tensor here = co_await first.infer(x);
  const tensor there = co_await other.infer(x);
  std::printf("moved: %s\n", std::ranges::equal(here.as<float>(), there.as<float>()) ? "the same outputs" : "differs");
  std::printf("gate of the first feature %.3f, of the second %.3f\n", state[0].second.as<float>()[0],
              state[0].second.as<float>()[1]);
}

int main(int argc, char** argv) {
  cluster cluster(argc, argv);
  auto first = cluster.server(0).make<gate>({.features = 8});
  const auto run = cluster.run(3, train, first);
  std::printf("%s after %lu steps\n", run.weights_digest.c_str(), run.steps);
}
