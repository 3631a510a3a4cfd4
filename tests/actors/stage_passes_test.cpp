// The order in which a stage passes micro-batches, against orders written down by hand, and what is under way
// meanwhile.

#include "actors/stage_passes.hpp"

#include <gtest/gtest.h>

#include <string>

namespace troupe::actors::stage_passes_test {
namespace {

using model::pipeline_schedule;

/// The order of a stage, such as "F0 F1 B0 B1".
std::string order_of(pipeline_schedule schedule, std::uint32_t stage, std::uint32_t stages, std::uint32_t count,
                     std::uint32_t* most = nullptr) {
  const stage_place at{stage, stages, schedule};
  std::string order;
  std::uint32_t forward = 0;
  std::uint32_t back = 0;
  while (back < count) {
    const bool is_forward = is_forward_next(at, count, forward, back);
    order += fmt::format("{}{}{}", order.empty() ? "" : " ", is_forward ? 'F' : 'B', is_forward ? forward : back);
    ++(is_forward ? forward : back);
    if (most != nullptr) *most = std::max(*most, forward - back);
  }
  return order;
}

TEST(StagePasses, OfOneForwardOneBackAlternateOnceTheStageIsFull) {
  constexpr auto schedule = pipeline_schedule::one_f_one_b;
  EXPECT_EQ(order_of(schedule, 0, 3, 4), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(order_of(schedule, 1, 3, 4), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(order_of(schedule, 2, 3, 4), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(order_of(schedule, 0, 4, 2), "F0 F1 B0 B1") << "fewer micro-batches than stages";
  EXPECT_EQ(order_of(schedule, 0, 2, 1), "F0 B0");
}

TEST(StagePasses, OfStepsThatOverlapAreInTheOrderOfOneForwardOneBack) {
  constexpr auto schedule = pipeline_schedule::pipedream;
  EXPECT_EQ(order_of(schedule, 0, 3, 5), "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4");
  EXPECT_EQ(order_of(schedule, 2, 3, 3), "F0 B0 F1 B1 F2 B2");
  EXPECT_EQ(alive_max({1, 3, schedule}, stage_passes::endless), 2U);
}

TEST(StagePasses, OfGpipeAreAllForwardAndThenAllBack) {
  for (std::uint32_t stage = 0; stage < 3; ++stage)
    EXPECT_EQ(order_of(pipeline_schedule::gpipe, stage, 3, 4), "F0 F1 F2 F3 B0 B1 B2 B3");
}

TEST(StagePasses, HaveAtMostSoManyUnderWay) {
  for (std::uint32_t stages = 1; stages <= 5; ++stages)
    for (std::uint32_t stage = 0; stage < stages; ++stage)
      for (std::uint32_t count = 1; count <= 9; ++count) {
        std::uint32_t most = 0;
        order_of(pipeline_schedule::one_f_one_b, stage, stages, count, &most);
        EXPECT_EQ(most, std::min(stages - stage, count));
        EXPECT_EQ(alive_max({stage, stages, pipeline_schedule::one_f_one_b}, count), most);
        EXPECT_EQ(alive_max({stage, stages, pipeline_schedule::gpipe}, count), count);
      }
}

/// Whatever the times of passes are, no stage waits for ever: each one's next pass has its input some day.
TEST(StagePasses, OfAllStagesFitTogether) {
  for (const auto schedule : {pipeline_schedule::gpipe, pipeline_schedule::one_f_one_b})
    for (std::uint32_t stages = 1; stages <= 5; ++stages)
      for (std::uint32_t count = 1; count <= 9; ++count) {
        std::vector<std::uint32_t> forward(stages), back(stages);
        bool moves = true;
        while (moves) {
          moves = false;
          for (std::uint32_t s = 0; s < stages; ++s) {
            const stage_place at{s, stages, schedule};
            if (back[s] == count) continue;
            if (is_forward_next(at, count, forward[s], back[s])) {
              if (s > 0 && forward[s - 1] <= forward[s]) continue;
              ++forward[s];
            } else {
              if (s + 1 < stages && back[s + 1] <= back[s]) continue;
              ++back[s];
            }
            moves = true;
          }
        }
        EXPECT_EQ(back.front(), count) << stages << " stages, " << count << " micro-batches";
      }
}

}  // namespace
}  // namespace troupe::actors::stage_passes_test
