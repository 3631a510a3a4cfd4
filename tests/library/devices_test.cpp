// Users' programs on a machine with CUDA devices, real or emulated.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/devices.hpp"
#include "tests/expect_finds.hpp"
#include "tests/kernels/needs_device.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/own_modules.hpp"
#include "troupe/troupe.hpp"

namespace troupe::devices_test {
namespace {

class LibraryGpu : public needs_device {};

/// Returns the error of `cluster.run(2, function, arguments...)`.
template <class Function, class... Arguments>
std::string error_of(std::vector<std::string> options, Function function, Arguments... arguments) {
  test::made_cluster cluster(std::move(options));
  return test::error_of([&] { cluster.run(2, function, arguments...); });
}

task<> train(trainer me, remote_module<nn::embedding_bag> table, std::vector<float>* parameters) {
  auto model = me.data_parallel(nn::sequential(nn::linear(16, 32), nn::relu(), nn::linear(32, 8)));
  auto own = me.data_parallel(nn::linear(8, 8), {.synchronized = false});
  distributed_optimizer optimizer(adam{.lr = 0.05}, table, model, own);
  for (const auto& [indices, offsets, target] : tutorial_batches(me.seed(), me.rank(), 0)) {
    auto context = me.new_context();
    const tensor rows = co_await table.forward(context, indices, offsets);
    const tensor first = model(context, rows);
    const tensor second = own(context, model(context, rows));
    const tensor loss = nn::cross_entropy(context, add(context, first, second), target);
    co_await context.backward(loss);
    co_await optimizer.step(context);
  }
  if (me.rank() != 0) co_return;
  *parameters = model.parameters();
  for (const auto& [name, numbers] : own.state_dict())
    for (const float one : numbers.as<float>()) parameters->push_back(one);
}

/// Returns trainer 0's final parameters.
std::vector<float> trained_with(std::vector<std::string> options) {
  test::made_cluster cluster(std::move(options));
  std::vector<float> parameters;
  cluster.run(2, train, cluster.server(0).make<nn::embedding_bag>({.num_embeddings = 100, .embedding_dim = 16}),
              &parameters);
  return parameters;
}

TEST_F(LibraryGpu, TrainersAndTablesComputeHereOrThereAlike) {
  const std::vector<float> here = trained_with({});
  for (const std::vector<std::string>& options : {std::vector<std::string>{"--server-device", "cuda"},
                                                  {"--device", "cuda"},
                                                  {"--device", "cuda", "--server-device", "cpu"}}) {
    const std::vector<float> there = trained_with(options);
    ASSERT_EQ(there.size(), here.size());
    for (std::size_t i = 0; i < here.size(); ++i) ASSERT_NEAR(there[i], here[i], 1e-4) << i << " with " << options[0];
  }
}

task<> accumulate(trainer me, std::vector<float>* parameters) {
  auto model = me.data_parallel(nn::linear(2, 1));
  distributed_optimizer optimizer(sgd{.lr = 0.1}, model);
  const tensor x = tensor::of<float>({1, 2}, std::vector<float>{1, 2});
  const tensor y = tensor::of<float>({1, 1}, std::vector<float>{3});
  auto context = me.new_context();
  for (int i = 0; i < 3; ++i) co_await context.backward(nn::mse_loss(context, model(context, x), y));
  co_await optimizer.step(context);
  if (me.rank() == 0) *parameters = model.parameters();
}

TEST_F(LibraryGpu, AccumulatesOnTheDevice) {
  std::vector<float> here;
  std::vector<float> there;
  EXPECT_EQ(error_of({}, accumulate, &here), "no error");
  EXPECT_EQ(error_of({"--device", "cuda"}, accumulate, &there), "no error");
  ASSERT_EQ(there.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(there[i], here[i], 1e-6);
}

/// Computes on the given stream, and requires CUDA's handle for it.
class doubled final : public nn::module {
 public:
  explicit doubled(std::atomic<bool>* has_stream) : has_stream_(has_stream) {}

  std::string type() const override { return "doubled"; }
  troupe::shape output(const tensor_view& input) const override { return input.shape(); }
  void forward(const nn::pass& how, const nn::pass_numbers& numbers) const override {
    *has_stream_ = how.cuda_stream() != nullptr;
    const float* const x = numbers.input.as<float>().data();
    how.stream.sum_in_rank_order(std::array{x, x}, numbers.input.count(), 1, numbers.output.data());
  }
  void backward(const nn::pass& /*how*/, const nn::pass_numbers& /*numbers*/,
                const nn::gradients& /*of*/) const override {}
  bool runs_on_devices() const override { return true; }

 private:
  std::atomic<bool>* has_stream_;  ///< shared by all trainers
};

task<> apply_doubled(trainer me, std::atomic<bool>* has_stream) {
  const auto model = me.data_parallel(doubled(has_stream));
  auto context = me.no_grad();
  const tensor y = model(context, tensor::of<float>({3}, std::vector<float>{1, 2, 3}));
  EXPECT_TRUE(std::ranges::equal(y.as<float>(), std::vector<float>{2, 4, 6}));
  co_return;
}

TEST_F(LibraryGpu, OwnModulesGetTheStream) {
  std::atomic<bool> has_stream = false;
  EXPECT_EQ(error_of({"--device", "cuda"}, apply_doubled, &has_stream), "no error");
  EXPECT_TRUE(has_stream);
}

task<> make_scale(trainer me) {
  me.data_parallel(nn::sequential(nn::linear(2, 2), test::scale(2)));
  co_return;
}

TEST_F(LibraryGpu, RefusesAModuleWithoutDeviceCodeByName) {
  EXPECT_EQ(error_of({}, make_scale), "no error");
  const std::string refused = error_of({"--device", "cuda", "--devices", "0"}, make_scale);
  EXPECT_FINDS(refused,
               "scale in sequential: has no code for CUDA devices, and is to compute on device 0; write it "
               "(docs/library.md, runs_on_devices), or use --device cpu");
}

task<> move_layer(trainer me) {
  if (me.rank() != 0) co_return;
  const auto layer = co_await me.server(0).make<nn::linear>({.in_features = 2, .out_features = 2});
  const tensor x = tensor::of<float>({1, 2}, std::vector<float>{1, -1});
  const tensor there = co_await layer.infer(x);
  co_await layer.to("cpu");
  const tensor here = co_await layer.infer(x);
  co_await layer.to("cuda:0");
  const tensor again = co_await layer.infer(x);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(here.as<float>()[i], there.as<float>()[i], 1e-6);
    EXPECT_EQ(again.as<float>()[i], there.as<float>()[i]);
  }
  EXPECT_ERROR(co_await layer.to("cuda:77"), "to(\"cuda:77\") on server 0: this server has the devices 0 (--devices)");
}

TEST_F(LibraryGpu, MovesModulesOfServers) {
  EXPECT_EQ(error_of({"--server-device", "cuda", "--devices", "0"}, move_layer), "no error");
}

task<> train_remotely(trainer me, remote_module<nn::linear> layer, std::vector<float>* parameters) {
  distributed_optimizer optimizer(adam{.lr = 0.1}, layer);
  for (int step = 0; step < 3; ++step) {
    auto context = me.new_context();
    const tensor x = tensor::of<float>({1, 2}, std::vector<float>{static_cast<float>(me.rank()), 2});
    const tensor wanted = tensor::of<float>({1, 1}, std::vector<float>{3});
    const tensor y = co_await layer.forward(context, x);
    co_await context.backward(nn::mse_loss(context, y, wanted));
    co_await optimizer.step(context);
  }
  co_await me.group().barrier();
  if (me.rank() != 0) co_return;
  const auto state = co_await layer.state_dict();
  for (const auto& [name, numbers] : state)
    for (const float one : numbers.as<float>()) parameters->push_back(one);
}

TEST_F(LibraryGpu, TrainsModulesOfServersThere) {
  std::vector<float> results[2];
  for (const bool there : {false, true}) {
    test::made_cluster cluster({"--server-device", there ? "cuda" : "cpu"});
    cluster.run(2, train_remotely, cluster.server(0).make<nn::linear>({.in_features = 2, .out_features = 1}),
                &results[there ? 1 : 0]);
  }
  ASSERT_EQ(results[1].size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(results[1][i], results[0][i], 1e-5);
}

}  // namespace
}  // namespace troupe::devices_test
