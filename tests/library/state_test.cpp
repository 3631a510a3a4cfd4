// Replicas' state under PyTorch's names, and safetensors files, one of them written by PyTorch.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/own_modules.hpp"
#include "troupe/troupe.hpp"

namespace troupe::state_test {
namespace {

using test::error_of;

template <class Function, class... Arguments>
std::string run(std::uint32_t trainers, Function function, Arguments... arguments) {
  test::made_cluster cluster;
  try {
    return cluster.run(trainers, function, arguments...).weights_digest;
  } catch (const error& e) {
    return e.what();
  }
}

// -- a run recorded with PyTorch --------------------------------------------------------------

std::map<std::string, tensor> reference_run() {
  const named_tensors all = load_safetensors(TROUPE_REFERENCE_RUNS "/mlp_mse.safetensors");
  return {all.begin(), all.end()};
}

/// Returns the weights `init` or `final` as the state of linear, ReLU, linear.
named_tensors state_of(const std::map<std::string, tensor>& run, const std::string& which) {
  return {{"0.weight", run.at(which + ".dense.0.weight")},
          {"0.bias", run.at(which + ".dense.0.bias")},
          {"2.weight", run.at(which + ".dense.1.weight")},
          {"2.bias", run.at(which + ".dense.1.bias")}};
}

/// Returns `count` rows of `columns` numbers from row `first` on.
tensor rows_of(const tensor& all, std::size_t first, std::size_t count, std::size_t columns) {
  return tensor::of<float>({count, columns}, all.as<float>().subspan(first * columns, count * columns));
}

task<> repeat(trainer me, const std::map<std::string, tensor>* run, double* worst_loss, named_tensors* result) {
  auto model = me.data_parallel(nn::sequential(nn::linear(10, 10), nn::relu(), nn::linear(10, 5)));
  model.load_state_dict(state_of(*run, "init"));
  distributed_optimizer optimizer(sgd{.lr = 0.01, .momentum = 0.9}, model);
  const auto mine = [&](const char* what) -> const tensor& {
    return run->at("trainer." + std::to_string(me.rank()) + "." + what);
  };
  std::size_t first = 0;
  for (std::size_t step = 0; step < 100; ++step) {
    const auto samples = static_cast<std::size_t>(mine("bags").as<std::int64_t>()[step]);
    auto context = me.new_context();
    const tensor y = model(context, rows_of(mine("dense"), first, samples, 10));
    const tensor loss = nn::mse_loss(context, y, rows_of(mine("target"), first, samples, 5));
    const double off = std::abs(loss.item() - mine("loss").as<double>()[step]);
    if (me.rank() == 0) *worst_loss = std::max(*worst_loss, off);
    co_await context.backward(loss);
    co_await optimizer.step(context);
    first += samples;
  }
  if (me.rank() == 1) *result = model.state_dict();
}

TEST(State, StartsFromPyTorchsWeightsAndTrainsAsPyTorch) {
  const auto recorded = reference_run();
  double worst_loss = 0;
  named_tensors trained;
  run(2, repeat, &recorded, &worst_loss, &trained);
  EXPECT_LT(worst_loss, 1e-6);
  const named_tensors expected = state_of(recorded, "final");
  ASSERT_EQ(trained.size(), expected.size());
  for (std::size_t t = 0; t < trained.size(); ++t) {
    EXPECT_EQ(trained[t].first, expected[t].first);
    ASSERT_EQ(trained[t].second.shape(), expected[t].second.shape());
    for (std::size_t i = 0; i < trained[t].second.count(); ++i)
      EXPECT_NEAR(trained[t].second.as<float>()[i], expected[t].second.as<double>()[i], 2e-6) << trained[t].first;
  }
}

// -- files --------------------------------------------------------------------------------

/// A path in the temporary folder; the file is removed in the end.
class temporary_file {
 public:
  temporary_file() : path_(::testing::TempDir() + "troupe_state_" + std::to_string(::getpid()) + ".safetensors") {}
  ~temporary_file() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Safetensors, KeepTensorsOfAllTypes) {
  const std::vector<float> floats = {1, -2.5F, 3};
  const std::vector<double> doubles = {0.1};
  const std::vector<std::int64_t> whole = {-7, 1LL << 40};
  const temporary_file file;
  save_safetensors(file.path(), {{"b.weight", tensor::of<float>({3, 1}, floats)},
                                 {"a", tensor::of<double>(shape(), doubles)},
                                 {"c", tensor::of<std::int64_t>({2}, whole)}});
  const named_tensors read = load_safetensors(file.path());
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(read[0].first, "a");
  EXPECT_EQ(read[0].second.shape(), shape());
  EXPECT_EQ(read[0].second.item(), 0.1);
  EXPECT_EQ(read[1].first, "b.weight");
  EXPECT_EQ(read[1].second.shape(), shape(3, 1));
  EXPECT_TRUE(std::ranges::equal(read[1].second.as<float>(), floats));
  EXPECT_TRUE(std::ranges::equal(read[2].second.as<std::int64_t>(), whole));
}

TEST(Safetensors, NameWhatIsWrong) {
  EXPECT_EQ(error_of([] { load_safetensors("/does/not/exist"); }),
            "/does/not/exist: No such file or directory; a safetensors file is expected");
  const std::vector<float> one = {1};
  const temporary_file file;
  const tensor x = tensor::of<float>({1}, one);
  EXPECT_NE(error_of([&] { save_safetensors(file.path(), {{"x", x}, {"x", x}}); }).find("x"), std::string::npos);
  EXPECT_EQ(error_of([&] { save_safetensors("f", {{"x", {}}}); }), "f: tensor 'x' has no numbers");
  EXPECT_NE(error_of([&] { save_safetensors("/does/not/exist", {{"x", x}}); }), "no error");
}

// A header as published files have it: null metadata, and a tensor of an unsupported type.
TEST(Safetensors, AreReadByNameBesideOnesOfOtherTypes) {
  const std::string header = R"({"__metadata__":null,"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("scale":{"dtype":"F8_E8M0","shape":[4],"data_offsets":[4,8]}})";
  const temporary_file file;
  const std::uint64_t length = header.size();
  const float one = 1;
  std::ofstream to(file.path(), std::ios::binary);
  to.write(reinterpret_cast<const char*>(&length), sizeof(length));
  to.write(header.data(), static_cast<std::streamsize>(header.size()));
  to.write(reinterpret_cast<const char*>(&one), sizeof(one)).write("1234", 4);
  to.close();
  const named_tensors read = load_safetensors(file.path(), {"a"});
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].second.item(), 1);
  EXPECT_EQ(error_of([&] { load_safetensors(file.path(), {"b"}); }), file.path() + ": tensor 'b' is missing");
  for (const auto& all : {error_of([&] { load_safetensors(file.path()); }), error_of([&] {
                            load_safetensors(file.path(), {"a", "scale"});
                          })})
    EXPECT_EQ(all, file.path() +
                       ": tensor 'scale' is [4] of F8_E8M0; F32, F64 and I64 of at most 6 dimensions can be "
                       "read; name the tensors that you want, if it is not one of them");
}

// -- replicas -------------------------------------------------------------------------------

task<> load(trainer me, const named_tensors* state, named_tensors* result) {
  auto model = me.data_parallel(nn::sequential(nn::linear(2, 1), test::running_mean(1)));
  model.load_state_dict(*state);
  *result = model.state_dict();
  co_return;
}

named_tensors three() {
  const std::vector<float> weight = {2, 3};
  const std::vector<double> bias = {0.5};
  const std::vector<float> mean = {-1};
  return {{"1.mean", tensor::of<float>({1}, mean)},
          {"0.weight", tensor::of<float>({1, 2}, weight)},
          {"0.bias", tensor::of<double>({1}, bias)}};
}

TEST(State, IsParametersThenBuffers) {
  const named_tensors given = three();
  named_tensors now;
  run(1, load, &given, &now);
  ASSERT_EQ(now.size(), 3U);
  EXPECT_EQ(now[0].first, "0.weight");
  EXPECT_EQ(now[0].second.shape(), shape(1, 2));
  EXPECT_EQ(now[0].second.as<float>()[1], 3);
  EXPECT_EQ(now[1].first, "0.bias");
  EXPECT_EQ(now[1].second.item(), 0.5);
  EXPECT_EQ(now[2].first, "1.mean");
  EXPECT_EQ(now[2].second.item(), -1);
}

TEST(State, OfOtherModulesIsRefusedWithAllThatIsWrong) {
  named_tensors given = three();
  given[0].first = "1.var";
  given[1].second = tensor(shape(2, 1));
  given[2].second = tensor(shape(1), dtype::i64);
  named_tensors now;
  EXPECT_EQ(run(1, load, &given, &now),
            "trainer 0, step 0: sequential: load_state_dict: '0.weight' is [2, 1], the module's is [1, 2]; '0.bias' is "
            "int64, the module's is float32; '1.mean' is missing; '1.var' is unexpected");
  EXPECT_TRUE(now.empty());
}

}  // namespace
}  // namespace troupe::state_test
