// The example of pipelines: the same output for all stages, schedules and processes, also interrupted and replayed.

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

#include "tests/library/example_output.hpp"
#include "tests/trace/temporary_folder.hpp"

namespace troupe::pipeline_example_test {
namespace {

using test::output_of;

/// Returns the digest and the losses of the example, which runs 60 steps.
std::string example_with(const std::string& options) {
  std::string text = output_of("pipeline", options);
  EXPECT_NE(text.find(" after 60 steps"), std::string::npos) << options << "\n" << text;
  return text;
}

TEST(PipelineExample, HasOneOutputForAllStagesAndSchedules) {
  for (const std::string replicas : {" --replicas 1", " --replicas 2"}) {
    const std::string whole = example_with("--stages 1" + replicas);
    for (const std::string schedule : {" --schedule 1f1b", " --schedule gpipe"})
      for (const std::string stages : {"--stages 2", "--stages 3"}) {
        EXPECT_EQ(example_with(stages + replicas + schedule), whole) << stages << replicas << schedule;
        EXPECT_EQ(example_with(stages + replicas + schedule + " --processes"), whole) << stages << replicas << schedule;
      }
  }
}

TEST(PipelineExample, HasOneOutputForOverlappingStepsWhereverTheyAre) {
  const std::string options = "--stages 4 --replicas 2 --schedule pipedream";
  const std::string expected = example_with(options);
  EXPECT_EQ(example_with(options + " --processes"), expected);
  EXPECT_NE(example_with("--stages 4 --replicas 2"), expected);
  EXPECT_EQ(example_with("--stages 1 --schedule pipedream"), example_with("--stages 1 --micro-batches 1"));
}

TEST(PipelineExample, InterruptedHasTheWeightsOfAsManySteps) {
  for (const std::string where :
       {"--stages 3 --replicas 2", "--stages 2 --processes", "--stages 3 --schedule pipedream"}) {
    const trace::temporary_folder folder;
    const std::string saved = (folder.path() / "run").string();
    const std::string saved_again = (folder.path() / "again").string();
    // The first SIGTERM stops a run, here after it has saved a step. (A shell makes background commands ignore SIGINT.)
    const std::string interrupted =
        output_of("pipeline", "--trace off --steps 1000000 --checkpoint-every 5 --save " + saved + " " + where +
                                  " & while kill -0 $! && ! ls " + saved +
                                  "/*[1-9]*.json; do :; done >/dev/null 2>&1; kill -TERM $!; wait $!");
    const std::size_t last = interrupted.rfind('\n', interrupted.size() - 2) + 1;
    std::array<char, 17> digest{};
    unsigned long long steps = 0;
    ASSERT_EQ(std::sscanf(interrupted.c_str() + last, "%16s after %llu steps", digest.data(), &steps), 2)
        << interrupted;
    EXPECT_GE(steps, 5U);
    EXPECT_LT(steps, 1'000'000U);
    // A checkpoint drains a pipeline of overlapping steps, and so affects the weights.
    const std::string whole = output_of(
        "pipeline", where + " --steps " + std::to_string(steps) + " --checkpoint-every 5 --save " + saved_again);
    // The function of an interrupted run ends within its last step, so that step's loss may be missing.
    EXPECT_EQ(interrupted.substr(last), whole.substr(whole.rfind('\n', whole.size() - 2) + 1));
  }
}

TEST(PipelineExample, IsDoneAgainFromItsRecording) {
  const trace::temporary_folder folder;
  const std::string there = folder.path().string();
  const std::string recorded = example_with("--stages 3 --replicas 2 --processes --trace full --trace-dir " + there);
  EXPECT_EQ(output_of("pipeline", "--replay " + there), recorded);
}

TEST(PipelineExample, RefusesWhatItCannotDo) {
  EXPECT_NE(
      output_of("pipeline", "--schedule zigzag 2>&1").find("--schedule zigzag: must be one of gpipe, 1f1b, pipedream"),
      std::string::npos);
  EXPECT_NE(output_of("pipeline", "--micro-batches 3 --schedule pipedream 2>&1").find("3 micro_batches with pipedream"),
            std::string::npos);
  EXPECT_NE(output_of("pipeline", "--stages 10 2>&1").find("--stages 10: must be a whole number between 1 and 9"),
            std::string::npos);
}

}  // namespace
}  // namespace troupe::pipeline_example_test
