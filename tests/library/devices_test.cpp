// Users' programs on a machine with CUDA devices, real or emulated.

#include <gtest/gtest.h>

#include <string>

#include "kernels/devices.hpp"
#include "tests/library/arguments.hpp"
#include "troupe/troupe.hpp"

namespace troupe::devices_test {
namespace {

class LibraryGpu : public testing::Test {
 protected:
  void SetUp() override {
    const kernels::device_report found = kernels::find_devices();
    if (!found.cuda_usable) GTEST_SKIP() << "skipped: no CUDA device (" << found.reason << ")";
  }
};

task<> train(trainer me, remote_module<nn::embedding_bag> table, int* steps) {
  auto model = me.data_parallel(nn::linear(16, 8));
  distributed_optimizer optimizer(sgd{.lr = 0.05}, table, model);
  for (const auto& [indices, offsets, target] : tutorial_batches(me.seed(), me.rank(), 0)) {
    auto context = me.new_context();
    const tensor rows = co_await table.forward(context, indices, offsets);
    const tensor loss = nn::cross_entropy(context, model(context, rows), target);
    co_await context.backward(loss);
    co_await optimizer.step(context);
    if (me.rank() == 0) ++*steps;
  }
}

/// Returns the steps that trainer 0 has taken.
int steps_with(test::arguments given) {
  cluster cluster(given.count(), given.values());
  int steps = 0;
  cluster.run(2, train, cluster.server(0).make<nn::embedding_bag>({.num_embeddings = 100, .embedding_dim = 16}),
              &steps);
  return steps;
}

TEST_F(LibraryGpu, TrainersComputeOnTheProcessorWithTablesHereOrThere) {
  EXPECT_EQ(steps_with({}), 10);
  EXPECT_EQ(steps_with({"--server-device", "cuda"}), 10);
}

}  // namespace
}  // namespace troupe::devices_test
