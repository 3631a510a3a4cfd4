// The state of a network cut into stages: cut and put together again it is what it was, whatever the stages lack.

#include "actors/stage_state.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "model/optimizer.hpp"
#include "model/stages.hpp"

namespace troupe::actors::stage_state_test {
namespace {

model::job job_of_layers() {
  auto what = model::parse_job({{"data", "adult"},
                                {"dense-optimizer", "adam"},
                                {"layers", R"([{"kind": "linear", "out": 6}, {"kind": "relu"}, {"kind": "batch_norm"},
                                               {"kind": "linear", "out": 3}, {"kind": "batch_norm"},
                                               {"kind": "linear", "out": 1}])"},
                                {"pipeline", "6"},
                                {"stages", "0,1,2,3,4,5"}});
  EXPECT_TRUE(what) << (what ? "" : what.error().message);
  return std::move(*what);
}

msg::tensor column(std::size_t count, float first) {
  std::vector<float> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return msg::tensor::own(count, 1, std::move(numbers));
}

TEST(StageState, IsWholeAgainWhereverItIsCut) {
  model::job what = job_of_layers();
  const auto data = model::open_dataset(what);
  ASSERT_TRUE(data);
  const model::hybrid_model whole((*data)->spec(), what);
  std::size_t buffers = 0;
  for (const auto& one : whole.buffers()) buffers += one.count();
  ASSERT_GT(buffers, 0U);
  const std::size_t count = whole.parameter_count();
  const msg::trainer_position from{
      .dense = {column(count, 0), column(count, 1e4F), column(count, 2e4F), column(buffers, 3e4F)}};
  for (const std::vector<std::size_t>& cut :
       std::vector<std::vector<std::size_t>>{{0, 1, 2, 3, 4, 5}, {0, 3}, {0, 4, 5}}) {
    what.stages = cut;
    what.pipeline = static_cast<std::uint32_t>(cut.size());
    std::vector<std::vector<msg::tensor>> parts;
    std::vector<float> parameters;
    for (std::uint32_t stage = 0; stage < what.pipeline; ++stage) {
      auto start = start_of_stage(what, **data, from, stage);
      ASSERT_TRUE(start);
      parameters.insert(parameters.end(), start->parameters.begin(), start->parameters.end());
      parts.push_back(start->saved);
    }
    EXPECT_EQ(parameters, whole.initial_parameters(what.seed));
    const auto again = joined_states(parts, 2);
    ASSERT_EQ(again.size(), from.dense.size());
    for (std::size_t i = 0; i < again.size(); ++i) EXPECT_EQ(again[i].bytes, from.dense[i].bytes) << i;
  }
}

TEST(StageState, OfAnotherNetworkIsRefused) {
  const model::job what = job_of_layers();
  const auto data = model::open_dataset(what);
  ASSERT_TRUE(data);
  const std::size_t count = model::hybrid_model((*data)->spec(), what).parameter_count();
  for (const std::vector<msg::tensor>& wrong : std::vector<std::vector<msg::tensor>>{
           {column(count, 0)},
           {column(count, 0), column(count, 0), column(count, 0), column(1, 0)},
           {column(count + 1, 0), column(count, 0), column(count, 0), column(18, 0)}}) {
    const auto start = start_of_stage(what, **data, {.dense = wrong}, 1);
    ASSERT_FALSE(start);
    EXPECT_NE(protocol::describe(start.error()).find("those of another model"), std::string::npos);
  }
}

}  // namespace
}  // namespace troupe::actors::stage_state_test
