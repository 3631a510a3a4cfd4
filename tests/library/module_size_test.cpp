// Modules too large for any memory: refused before anything is made, wherever they would be.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "model/memory.hpp"
#include "tests/expect_finds.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/own_modules.hpp"
#include "tests/library/run_trainers.hpp"
#include "troupe/troupe.hpp"

namespace troupe::module_size_test {
namespace {

constexpr std::size_t one = 1;
constexpr std::size_t most = std::numeric_limits<std::int64_t>::max();

void expect_no_memory(const std::string& text, const std::string& expected) {
  EXPECT_FINDS(text, expected);
  EXPECT_FINDS(text, "iB, and ");
  EXPECT_FINDS(text, "iB of memory are available");
}

task<> make_there(trainer me, std::size_t in, std::size_t out, bool bias) {
  co_await me.server(0).make<nn::linear>({.in_features = in, .out_features = out, .bias = bias});
}

TEST(ModuleSizes, OfServersAreChecked) {
  for (const bool bias : {true, false})
    for (const auto& [in, out] : {std::pair{one << 62, std::size_t{4}},
                                  {std::size_t{4}, one << 62},
                                  {most, std::size_t{4}},
                                  {one << 32, one << 32},
                                  {one << 40, std::size_t{4}},
                                  {one << 62, std::size_t{16}}})
      expect_no_memory(test::error_of(1, make_there, in, out, bias),
                       "make on server 0: linear with weight [" + std::to_string(out) + ", " + std::to_string(in) +
                           "] and its gradient would take ");
  const std::string limit = ": must be a whole number between 1 and 9223372036854775807";
  EXPECT_FINDS(test::error_of(1, make_there, 0 * one, 4 * one, true), "linear: in_features 0" + limit);
  EXPECT_FINDS(test::error_of(1, make_there, 4 * one, 0 * one, true), "linear: out_features 0" + limit);
  EXPECT_FINDS(test::error_of(1, make_there, most + 1, 4 * one, true),
               "linear: in_features 9223372036854775808" + limit);
  EXPECT_EQ(test::error_of(1, make_there, 3 * one, 4 * one, true), "no error");
}

TEST(ModuleSizes, OfServersAreCheckedForMainToo) {
  test::made_cluster cluster({"--quiet"});
  const auto wide = cluster.server(0).make<nn::linear>({.in_features = one << 62, .out_features = 4});
  const auto rest = [](trainer, remote_module<nn::linear>) -> task<> { co_return; };
  expect_no_memory(test::error_of([&] { cluster.run(1, rest, wide); }),
                   "linear with weight [4, 4611686018427387904] and its gradient would take ");
}

using maker = std::function<nn::sequential()>;

task<> make_replica(trainer me, maker make) {
  me.data_parallel(make());
  co_return;
}

task<> make_pipeline(trainer me, maker make) {
  me.pipeline({make(), nn::sequential(nn::linear(2, 2))});
  co_return;
}

/// A user's module that claims tensor sizes and does nothing else.
class claim final : public test::scale {
 public:
  claim(std::vector<nn::parameter> trained, std::vector<nn::parameter> kept)
      : scale(1), trained_(std::move(trained)), kept_(std::move(kept)) {}
  std::string type() const override { return "claim"; }
  std::vector<nn::parameter> parameters() const override { return trained_; }
  std::vector<nn::parameter> buffers() const override { return kept_; }

 private:
  std::vector<nn::parameter> trained_;
  std::vector<nn::parameter> kept_;
};

TEST(ModuleSizes, OfReplicasAndStagesAreChecked) {
  constexpr std::size_t wide = (std::size_t{1} << 31) - 1;
  constexpr std::size_t half = std::size_t{1} << 63;
  const std::vector<std::pair<std::string, maker>> all = {
      {"0.weight [4, 4611686018427387904]", [] { return nn::sequential(nn::linear(one << 62, 4)); }},
      {"0.weight [4, 18446744073709551615]",
       [] { return nn::sequential(nn::linear(static_cast<std::size_t>(-1), 4)); }},
      {"0.weight [4294967296, 4294967296]", [] { return nn::sequential(nn::linear(one << 32, one << 32, false)); }},
      {"0.weight [65536, 2147483647, 9, 9]",
       [] { return nn::sequential(nn::conv2d({.in_channels = wide, .out_channels = 65536, .kernel = 9})); }},
      {"0.weight_ih_l0 [262144, 2147483647]",
       [] { return nn::sequential(nn::lstm({.features = wide, .hidden = 65536})); }},
      {"0.module.weight [4, 4611686018427387904]",
       [] { return nn::sequential(nn::residual(nn::linear(one << 62, 4))); }},
      {"0.a [9223372036854775808]",
       [] {
         return nn::sequential(claim({{"a", {half}}}, {}), claim({{"b", {half}}}, {}));
       }},
      {"0.kept [4611686018427387904, 4]",
       [] {
         return nn::sequential(claim({}, {{"kept", {one << 62, 4}}}));
       }},
  };
  for (const auto& [tensor_text, make] : all) {
    const std::string text = "sequential with " + tensor_text + " and its gradient would take ";
    expect_no_memory(test::error_of(1, make_replica, make), text);
    expect_no_memory(test::error_of(2, make_pipeline, make), text);
  }
}

// -- memory that is not written yet --------------------------------------------------------

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

/// Records what is claimed once the trainers have replicas of 4 MiB, and then once these have an optimizer.
task<> tell_claims(trainer me, std::vector<std::uint64_t>* claimed) {
  auto model = me.data_parallel(nn::linear(1024, 1024, false));
  co_await me.group().barrier();
  if (me.rank() == 0) claimed->push_back(model::claimed_memory());
  co_await me.group().barrier();
  const distributed_optimizer optimizer(adam{}, model);
  co_await me.group().barrier();
  if (me.rank() == 0) claimed->push_back(model::claimed_memory());
  co_await me.group().barrier();
}

TEST(ClaimedMemory, IsTheGradientsOfReplicasAndOneMean) {
  const std::uint64_t before = model::claimed_memory();
  std::vector<std::uint64_t> claimed;
  EXPECT_EQ(test::error_of(2, tell_claims, &claimed), "no error");
  EXPECT_EQ(claimed, (std::vector<std::uint64_t>{before + 8 * mib, before + 12 * mib}));
  EXPECT_EQ(model::claimed_memory(), before) << "the run is over";
}

task<> tell_claims_there(trainer me, remote_module<nn::linear> far, std::vector<std::uint64_t>* claimed) {
  co_await far.parameters();
  claimed->push_back(model::claimed_memory());
  const distributed_optimizer optimizer(adam{}, far);
  co_await far.state_dict();
  claimed->push_back(model::claimed_memory());
  (void)me;
}

TEST(ClaimedMemory, IsTheGradientAndTheMeanOfAModuleOnAServer) {
  const std::uint64_t before = model::claimed_memory();
  std::vector<std::uint64_t> claimed;
  {
    test::made_cluster cluster({"--quiet"});
    const auto far = cluster.server(0).make<nn::linear>({.in_features = 1024, .out_features = 1024, .bias = false});
    cluster.run(1, tell_claims_there, far, &claimed);
  }
  EXPECT_EQ(claimed, (std::vector<std::uint64_t>{before + 4 * mib, before + 8 * mib}));
  EXPECT_EQ(model::claimed_memory(), before);
}

/// Needs a quarter of the memory, of which another claim holds three quarters.
TEST(ClaimedMemory, IsRefusedToOthers) {
  const std::uint64_t available = model::available_memory();
  const auto taken = model::claim_memory(available / 4 * 3);
  ASSERT_TRUE(taken);
  const std::size_t quarter = available / 4 / sizeof(float);
  expect_no_memory(test::error_of(1, make_replica, maker([quarter] {
                                    return nn::sequential(claim({{"a", {quarter}}}, {}));
                                  })),
                   "sequential with 0.a [" + std::to_string(quarter) + "] and its gradient would take ");
}

/// A user's module that claims a size of saved numbers, and saves nothing.
class saver final : public test::scale {
 public:
  struct options {
    std::int64_t numbers = 0;
    static nn::option_fields<options> fields() {
      return nn::option_fields<options>().integer("numbers", &options::numbers);
    }
  };
  explicit saver(std::uint64_t numbers) : scale(2), numbers_(numbers) {}
  explicit saver(const options& chosen) : saver(static_cast<std::uint64_t>(chosen.numbers)) {}
  std::string type() const override { return "saver"; }
  std::size_t saved(const tensor_view& /*input*/, const kernels::stream& /*on*/) const override { return numbers_; }

 private:
  std::uint64_t numbers_;
};
const registered<saver> saver_registered("saver");

task<> pass_there(trainer me, std::uint64_t numbers) {
  auto module = co_await me.server(0).make<saver>({.numbers = static_cast<std::int64_t>(numbers)});
  context with = me.new_context();
  co_await module.forward(with, tensor({1, 2}));
}

task<> pass_here(trainer me, nn::sequential made) {
  const data_parallel module = me.data_parallel(made);
  context with = me.new_context();
  module(with, tensor({1, 2}));
  co_return;
}

std::string error_of_check(const nn::module& of) {
  return test::error_of([&] { nn::check_gradient(of, tensor({1, 2})); });
}

/// Tested as the last module and before another one.
TEST(SavedNumbers, OfMoreThanAnyMemoryAreRefused) {
  const std::uint64_t bytes_wrap = std::uint64_t{1} << 62;
  for (const std::uint64_t numbers : {bytes_wrap, bytes_wrap + 1, std::numeric_limits<std::uint64_t>::max()}) {
    const std::string expected =
        "saver: saved() is " + std::to_string(numbers) + " numbers for an input [1, 2]; it has more than ";
    for (const std::string& text :
         {test::error_of(1, pass_there, numbers), test::error_of(1, pass_here, nn::sequential(saver(numbers))),
          test::error_of(1, pass_here, nn::sequential(saver(numbers), nn::linear(2, 2))),
          test::error_of(1, pass_here, nn::sequential(nn::residual(saver(numbers)))), error_of_check(saver(numbers))})
      EXPECT_FINDS(text, expected);
  }
}

TEST(SavedNumbers, ThatOnlyTogetherAreTooManyAreRefused) {
  const std::uint64_t addressed = (std::uint64_t{1} << 61) - 1;  // each alone is addressable
  nn::sequential many;
  for (int i = 0; i < 5; ++i) many.add(saver(addressed));
  std::string text = test::error_of(1, pass_here, many);
  EXPECT_FINDS(text, "sequential: saved() is 11529215046068469771 numbers");
  for (int i = 0; i < 5; ++i) many.add(saver(addressed));
  text = test::error_of(1, pass_here, many);
  EXPECT_FINDS(text, "sequential: its modules save more numbers than any memory has");
}

TEST(SavedNumbers, ForWhichThereIsNoMemoryAreRefused) {
  const std::uint64_t addressed = (std::uint64_t{1} << 61) - 1;
  const std::string text = "saver: there is no memory for the 2305843009213693951 numbers of saved()";
  const std::string far = test::error_of(1, pass_there, addressed);
  EXPECT_FINDS(far, text);
  const std::string near = test::error_of(1, pass_here, nn::sequential(saver(addressed)));
  EXPECT_FINDS(near, "sequential: there is no memory for the 2305843009213693951 numbers");
}

TEST(ShapeCounts, AreChecked) {
  EXPECT_EQ(shape(std::size_t{1} << 40, std::size_t{1} << 40, 0).count(), 0U);
  EXPECT_EQ(shape(0, std::size_t{1} << 40, std::size_t{1} << 40).count(), 0U);
  EXPECT_EQ(shape().count(), 1U);
  const std::size_t wide = std::size_t{1} << 32;
  for (const shape& lengths : {shape(wide, wide), shape(wide, wide, wide), shape(3, std::size_t{1} << 63)}) {
    EXPECT_THROW(lengths.count(), error);
    EXPECT_THROW(tensor{lengths}, error);
    EXPECT_THROW(nn::count_of(std::vector<nn::parameter>{{"a", lengths}}), error);
  }
  const std::vector<nn::parameter> two = {{"a", {std::size_t{1} << 63}}, {"b", {std::size_t{1} << 63}}};
  EXPECT_THROW(nn::count_of(two), error);
}

}  // namespace
}  // namespace troupe::module_size_test
