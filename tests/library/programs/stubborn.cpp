// A program that does not end when it is signalled; `--way` chooses what it does instead. It creates the file `--mark`
// once it has reached that point.

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <troupe/troupe.hpp>
#include <vector>

using namespace troupe;

std::string mark_file;

void mark() { std::ofstream(mark_file) << "here\n"; }

[[noreturn]] void sleep_for_ever() {
  while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
}

[[noreturn]] void spin_for_ever() {
  for (volatile std::uint64_t turns = 0;;) turns = turns + 1;
}

/// Trainer 1 never returns after step 10; with a replica, the others wait for its gradient.
task<> train(trainer me, std::string way) {
  auto model = me.data_parallel(nn::linear(4, 2));
  distributed_optimizer optimizer(sgd{.lr = 0.05}, model);
  const tensor rows = tensor::of<float>({2, 4}, std::vector<float>(8, 1));
  const std::vector<std::int64_t> classes = {0, 1};
  bool is_marked = false;
  for (const auto step : me.steps(1'000'000)) {
    auto context = me.new_context();
    co_await context.backward(nn::cross_entropy(context, model(context, rows), classes));
    co_await optimizer.step(context);
    if (step < 9 || me.rank() != 1 || is_marked) continue;
    is_marked = true;
    mark();
    if (way == "spins") spin_for_ever();
    if (way == "sleeps") sleep_for_ever();
  }
}

class spinner final : public remote_object {
 public:
  void spin() {
    mark();
    spin_for_ever();
  }
  tensor score(const tensor& rows) {
    mark();
    sleep_for_ever();
    return rows;
  }
  std::int64_t count() { return ++count_; }
  static void describe(methods<spinner>& all) {
    all.add("spin", &spinner::spin);
    all.add("count", &spinner::count);
    all.add_batched("score", &spinner::score, {.max_batch_size = 64, .wait = std::chrono::milliseconds(0)});
  }
  named_tensors state_dict() const override { return {}; }
  void load_state_dict(const named_tensors& /*state*/) override {}

 private:
  std::int64_t count_ = 0;
};
const registered<spinner> spinners("spinner");

/// Trainer 0 calls the object, and trainer 1 returns.
task<> call(trainer me, remote_module<spinner> one, std::string way) {
  if (me.rank() == 1) co_return;
  if (way == "method") co_await one.call(&spinner::spin);
  if (way == "batched") (void)co_await one.call(&spinner::score, tensor::of<float>({1, 2}, std::vector<float>(2, 1)));
  if (way == "waits") {
    const promise<> never;
    mark();
    co_await never.get_future();
  }
  while (way == "goes-on") {
    if (co_await one.call(&spinner::count) == 3) mark();
  }
}

task<> serve(client /*me*/) {
  mark();
  sleep_for_ever();
  co_return;
}

int main(int argc, char** argv) {
  std::string way;
  cluster cluster(
      argc, argv,
      {option("way", way, "which").may_change_on_resume(), option("mark", mark_file, "a file").may_change_on_resume()});
  if (way == "method" || way == "batched" || way == "waits" || way == "goes-on" || way == "main" || way == "client") {
    auto one = cluster.server(0).make<spinner>();
    if (way == "client") cluster.client(serve);
    cluster.run(2, call, one, way);
    if (way != "main") return 0;
    mark();
    sleep_for_ever();
  }
  const auto done = cluster.run(2, train, way);
  return done.stopped ? 0 : 3;
}
