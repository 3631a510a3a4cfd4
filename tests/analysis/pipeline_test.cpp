// What a recording shows of a pipeline's stages, compared with times written by hand.

#include "trace/analysis/pipeline.hpp"

#include <gtest/gtest.h>

#include "tests/trace/made_recording.hpp"

namespace troupe::analysis::pipeline_test {
namespace {

using trace::ms;
using trace::range_name;

/// Two steps of 12 ms with two stages and two micro-batches, as in GPipe: a forward pass takes 1 ms, a backward pass 3
/// ms.
trace::made_recording two_stages() {
  trace::made_recording made(0, 2);
  for (std::uint64_t step = 1; step <= 2; ++step) {
    const trace::nanoseconds at = ms(100) * static_cast<trace::nanoseconds>(step);
    const auto pass = [&](std::uint16_t stage, range_name what, int begin, int end) {
      made.range(made.trainer(stage), what, step, at + ms(begin), at + ms(end));
    };
    pass(0, range_name::forward, 0, 1);
    pass(0, range_name::forward, 1, 2);
    pass(1, range_name::forward, 1, 2);
    pass(1, range_name::forward, 2, 3);
    pass(1, range_name::backward, 3, 6);
    pass(1, range_name::backward, 6, 9);
    pass(0, range_name::backward, 6, 9);
    pass(0, range_name::backward, 9, 12);
  }
  return made;
}

TEST(PipelineUse, CountsPassesAndWhatIsBetweenThem) {
  trace::made_recording made = two_stages();
  // Stage 1 handles a message from 0.5 to 2.5 ms of the first step, which overlaps its passes for 1.5 ms, and one after
  // the step.
  made.handled("troupe::activation", made.trainer(0), made.trainer(1), {0, 0, ms(100) + ms(1) / 2, ms(102) + ms(1) / 2},
               {.step = 1});
  made.handled("troupe::part_query", made.trainer(0), made.trainer(1), ms(0, 0, 150, 160), {.step = 1});
  const pipeline_use found = find_pipeline_use(made.done());
  EXPECT_EQ(found.steps, 2U);
  EXPECT_EQ(found.length, ms(24));
  ASSERT_EQ(found.stages.size(), 2U);
  for (const auto& one : found.stages) {
    EXPECT_EQ(one.forward, 4U);
    EXPECT_EQ(one.backward, 4U);
    EXPECT_EQ(one.passes, ms(16));
  }
  EXPECT_EQ(found.stages[0].other, 0);
  EXPECT_EQ(found.stages[1].other, ms(1) / 2) << "before its first pass: the rest of the message is passes";
  EXPECT_DOUBLE_EQ(found.bubble(), 1.0 / 3.0);
}

TEST(PipelineUse, OfARunWithoutStagesIsNone) {
  trace::made_recording made;
  made.range(made.trainer(0), range_name::forward_backward, 1, ms(1), ms(2));
  const pipeline_use found = find_pipeline_use(made.done());
  EXPECT_TRUE(found.stages.empty());
  EXPECT_EQ(found.bubble(), 0);
  EXPECT_EQ(pipeline_text(made.done(), found, 20), "");
}

TEST(PipelineUse, IsTold) {
  trace::made_recording made = two_stages();
  const std::string text = pipeline_text(made.done(), find_pipeline_use(made.done()), 20);
  EXPECT_NE(text.find("a bubble of 33.3 %"), std::string::npos) << text;
  EXPECT_NE(text.find("trainer 1"), std::string::npos) << text;
  const auto json = pipeline_json(made.done(), find_pipeline_use(made.done()));
  EXPECT_EQ(json.at("steps"), 2);
}

/// A slice waits for the others during a pass, and in an evaluation, which is not part of a step.
TEST(PipelineUse, CountsWaitsForSlicesAsNoPasses) {
  trace::made_recording whole = two_stages();
  EXPECT_EQ(pipeline_text(whole.done(), find_pipeline_use(whole.done()), 10).find("for slices"), std::string::npos);
  trace::made_recording made = two_stages();
  made.range(made.trainer(1), range_name::wait_for_slices, 1, ms(104), ms(105));
  made.range(made.trainer(1), range_name::wait_for_slices, 1, ms(110), ms(111));
  made.range(made.trainer(1), range_name::wait_for_slices, 1, ms(150), ms(159));
  const pipeline_use found = find_pipeline_use(made.done());
  EXPECT_EQ(found.stages[1].for_slices, ms(1));
  EXPECT_EQ(found.stages[1].passes, ms(15));
  EXPECT_EQ(found.stages[0].for_slices, 0);
  EXPECT_NE(pipeline_text(made.done(), found, 10).find("for slices"), std::string::npos);
}

}  // namespace
}  // namespace troupe::analysis::pipeline_test
