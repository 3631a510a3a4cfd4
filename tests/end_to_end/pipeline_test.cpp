// Goal: networks cut into the stages of a pipeline train what whole ones do, bit by bit, however the run is set up.
// Method: the digest of the same job without stages, with the same micro-batches. Reference runs (parity_test.cpp) know
// that one's numbers.

#include <gtest/gtest.h>

#include <string>

#include "tests/end_to_end/layered_job.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::pipeline_test {
namespace {

const words in_four = {"--micro-batches", "4"};
const words gpipe = {"--schedule", "gpipe"};

words stages(const std::string& count, const words& further = {}) { return with({"--pipeline", count}, further); }

TEST(Pipeline, TrainsWhatTheWholeNetworkDoes) {
  const words job = with(layered_job(), in_four);
  const std::string whole = digest_of(run(job));
  for (const words& options : {stages("2"), stages("2", gpipe), stages("3", {"--stages", "0,4,6"}),
                               stages("4", {"--stages", "0,1,6,8"}), stages("9"), stages("3", {"--threads", "1"}),
                               stages("2", {"--processes"}), stages("3", with(gpipe, {"--processes"}))})
    EXPECT_EQ(digest_of(run(with(job, options))), whole) << testing::PrintToString(options);
}

/// With tables on servers; the trainers' batches end unequally, and the tutorial's are smaller than the micro-batches.
TEST(Pipeline, HasTheTablesInItsFirstStage) {
  for (const words& job : {words{"train", "--json", "--data", "adult", "--steps", "60", "--interaction", "dot",
                                 "--hidden", "32,16", "--trainers", "3", "--micro-batches", "3", "--device", "cpu"},
                           words{"train", "--json", "--data", "tutorial", "--epochs", "3", "--micro-batches", "7",
                                 "--hidden", "16", "--device", "cpu"}}) {
    const auto whole = last_event(run(job), "done");
    for (const words& options : {stages("2"), stages("3", with(gpipe, {"--servers", "2", "--processes"}))}) {
      const auto cut = last_event(run(with(job, options)), "done");
      EXPECT_EQ(cut.at("weights_digest"), whole.at("weights_digest")) << testing::PrintToString(options);
      EXPECT_EQ(cut.at("loss"), whole.at("loss"));
    }
  }
}

TEST(Pipeline, WorksWithWhatElseAStepMayHave) {
  const words job = with(layered_job(), in_four);
  for (const words& options :
       {words{"--accumulate", "3"}, words{"--clip-norm", "0.5"}, words{"--accumulate", "2", "--nan", "skip"},
        words{"--trainers", "1", "--accumulate", "2", "--clip-norm", "0.2"}, words{"--trainers", "3"}}) {
    const std::string whole = digest_of(run(with(job, options)));
    for (const words& cut : {stages("2"), stages("3", with(gpipe, {"--processes"}))})
      EXPECT_EQ(digest_of(run(with(job, with(options, cut)))), whole)
          << testing::PrintToString(options) << testing::PrintToString(cut);
  }
}

TEST(Pipeline, IsResumedWithOtherStages) {
  const words job = with(layered_job(), in_four);
  const std::string whole = digest_of(run(job));
  const model::checkpoint_folder folder;
  EXPECT_EQ(run(with(job, stages("3", {"--steps", "9", "--save", folder.path()}))).exit_code, 0);
  const words on = {"train", "--resume", folder.path(), "--device", "cpu", "--json", "--save", folder.path()};
  EXPECT_EQ(run(with(on, stages("2", {"--steps", "16", "--processes"}))).exit_code, 0);
  EXPECT_EQ(digest_of(run(with(on, {"--pipeline", "1", "--steps", "26"}))), whole);
}

TEST(Pipeline, HasAsManyMicroBatchesAsStagesUnlessTold) {
  const words job = layered_job();
  EXPECT_EQ(digest_of(run(with(job, stages("3")))), digest_of(run(with(job, {"--micro-batches", "3"}))));
}

}  // namespace
}  // namespace troupe::end_to_end::pipeline_test
