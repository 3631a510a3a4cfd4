// The state of a network cut into parts: cutting and joining restores it, whatever the parts lack.

#include "actors/trainer/part_state.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "model/optimizer.hpp"
#include "model/stages.hpp"

namespace troupe::actors::part_state_test {
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
  const std::size_t buffers = nn::count_of(whole.buffers());
  ASSERT_GT(buffers, 0U);
  const std::size_t count = nn::count_of(whole.parameters());
  const msg::trainer_position from{
      .dense = {column(count, 0), column(count, 1e4F), column(count, 2e4F), column(buffers, 3e4F)}};
  for (const std::vector<std::size_t>& cut :
       std::vector<std::vector<std::size_t>>{{0, 1, 2, 3, 4, 5}, {0, 3}, {0, 4, 5}}) {
    what.stages = cut;
    what.pipeline = static_cast<std::uint32_t>(cut.size());
    std::vector<std::vector<msg::tensor>> parts;
    std::vector<float> parameters;
    for (std::uint32_t stage = 0; stage < what.pipeline; ++stage) {
      auto start = start_of_part(what, **data, from, stage);
      ASSERT_TRUE(start);
      parameters.insert(parameters.end(), start->parameters.begin(), start->parameters.end());
      parts.push_back(start->saved);
    }
    EXPECT_EQ(parameters, nn::initial_numbers(whole, what.seed).parameters);
    const auto again = joined_states(model::parts_of_network(what, (*data)->spec()), parts, 2);
    ASSERT_EQ(again.size(), from.dense.size());
    for (std::size_t i = 0; i < again.size(); ++i) EXPECT_EQ(again[i].bytes, from.dense[i].bytes) << i;
  }
}

/// Layer 0 is split by its outputs, and layer 2 by its inputs; each slice has layer 2's bias.
TEST(StageState, IsWholeAgainWhereSlicesShareLayers) {
  auto what = model::parse_job({{"data", "adult"},
                                {"dense-optimizer", "adam"},
                                {"hidden", "6,4"},
                                {"pipeline", "2"},
                                {"stages", "0,3"},
                                {"tensor-parallel", "3"}});
  ASSERT_TRUE(what) << what.error().message;
  const auto data = model::open_dataset(*what);
  ASSERT_TRUE(data);
  const model::hybrid_model whole((*data)->spec(), *what);
  const std::size_t in = whole.in_features();
  const std::size_t count = nn::count_of(whole.parameters());
  ASSERT_EQ(count, in * 6 + 6 + 6 * 4 + 4 + 4 + 1);
  const msg::trainer_position from{.dense = {column(count, 0), column(count, 1e5F), column(count, 2e5F)}};
  std::vector<std::vector<msg::tensor>> parts;
  for (std::uint32_t part = 0; part < 6; ++part) {
    auto start = start_of_part(*what, **data, from, part);
    ASSERT_TRUE(start);
    parts.push_back(start->saved);
  }
  // The second slice: rows 2 and 3 of the first weight, columns 2 and 3 of the second, and the whole second bias.
  const auto mine = parts[1].front().as<float>();
  ASSERT_EQ(mine.size(), in * 2 + 2 + 4 * 2 + 4);
  EXPECT_EQ(mine[0], static_cast<float>(2 * in));
  EXPECT_EQ(mine[2 * in], static_cast<float>(6 * in + 2)) << "the first bias";
  const std::size_t second = 6 * in + 6;
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(mine[2 * in + 2 + i], static_cast<float>(second + i / 2 * 6 + 2 + i % 2));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(mine[2 * in + 10 + i], static_cast<float>(second + 24 + i));
  const auto again = joined_states(model::parts_of_network(*what, (*data)->spec()), parts, 2);
  ASSERT_EQ(again.size(), from.dense.size());
  for (std::size_t i = 0; i < again.size(); ++i) EXPECT_EQ(again[i].bytes, from.dense[i].bytes) << i;
}

TEST(StageState, OfAnotherNetworkIsRefused) {
  const model::job what = job_of_layers();
  const auto data = model::open_dataset(what);
  ASSERT_TRUE(data);
  const std::size_t count = nn::count_of(model::hybrid_model((*data)->spec(), what).parameters());
  for (const std::vector<msg::tensor>& wrong : std::vector<std::vector<msg::tensor>>{
           {column(count, 0)},
           {column(count, 0), column(count, 0), column(count, 0), column(1, 0)},
           {column(count + 1, 0), column(count, 0), column(count, 0), column(18, 0)}}) {
    const auto start = start_of_part(what, **data, {.dense = wrong}, 1);
    ASSERT_FALSE(start);
    EXPECT_NE(protocol::describe(start.error()).find("those of another model"), std::string::npos);
  }
}

}  // namespace
}  // namespace troupe::actors::part_state_test
