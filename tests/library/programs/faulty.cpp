// A program with the fault that `--fault` chooses.

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <troupe/troupe.hpp>
#include <vector>

using namespace troupe;

task<> train(trainer me, remote_module<nn::embedding_bag> table, std::string fault, bool replicates) {
  auto model = me.data_parallel(nn::linear(4, 2));
  distributed_optimizer optimizer(sgd{.lr = 0.05}, table);
  if (replicates) optimizer.add(sgd{.lr = 0.05}, model);
  const std::vector<std::int64_t> ids = {1, 2}, offsets = {0, 1}, classes = {0, 1};
  for (const auto step : me.steps(20)) {
    auto context = me.new_context();
    const tensor rows = co_await table.forward(context, ids, offsets);
    co_await context.backward(nn::cross_entropy(context, model(context, rows), classes));
    co_await optimizer.step(context);
    if (step != 9 || me.rank() != 1) continue;
    while (fault == "hang") std::this_thread::sleep_for(std::chrono::seconds(1));
    if (fault == "crash") std::raise(SIGSEGV);
    if (fault == "returns") co_return;
    if (fault == "dies") std::raise(SIGKILL);
  }
  if (fault == "never-exits") {
    std::printf("trainer %u is done\n", me.rank());
    std::atexit([] {
      while (true) ::pause();
    });
  }
}

/// An object whose method never returns.
class sleeper final : public remote_object {
 public:
  void sleep() {
    while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  static void describe(methods<sleeper>& all) { all.add("sleep", &sleeper::sleep); }
  named_tensors state_dict() const override { return {}; }
  void load_state_dict(const named_tensors& /*state*/) override {}
};
const registered<sleeper> sleepers("sleeper");

task<> call(trainer me, remote_module<sleeper> one) {
  if (me.rank() == 1) co_await one.call(&sleeper::sleep);
}

/// Whether --processes started this process for a trainer.
bool is_trainer_process(int argc, char** argv) {
  for (int i = 0; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], "--role") == 0 && std::strcmp(argv[i + 1], "trainer") == 0) return true;
  return false;
}

int main(int argc, char** argv) {
  std::string fault;
  bool replicates = false;
  cluster cluster(argc, argv,
                  {option("fault", fault, "which"), option("replicates", replicates, "trains the replica")});
  if (fault == "never-joins" && is_trainer_process(argc, argv)) std::_Exit(3);
  if (fault == "slow-method") {
    auto one = cluster.server(0).make<sleeper>();
    cluster.run(2, call, one);
    return 0;
  }
  auto table = cluster.server(0).make<nn::embedding_bag>({.num_embeddings = 10, .embedding_dim = 4});
  cluster.run(2, train, table, fault, replicates);
}
