// Goal: networks split into the stages of a pipeline train like whole ones, bit by bit, however the run is set up.
// Method: compares with the digest of the same job without stages, with the same micro-batches. Reference runs
// (parity_test.cpp) check the numbers of that job.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <string>

#include "tests/end_to_end/layered_job.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::pipeline_test {
namespace {

const args in_four = {"--micro-batches", "4"};
const args gpipe = {"--schedule", "gpipe"};

args stages(const std::string& count, const args& further = {}) { return with({"--pipeline", count}, further); }

TEST(Pipeline, TrainsWhatTheWholeNetworkDoes) {
  const args job = with(layered_job(), in_four);
  const std::string whole = digest_of(run(job));
  for (const args& options : {stages("2"), stages("2", gpipe), stages("3", {"--stages", "0,4,6"}),
                              stages("4", {"--stages", "0,1,6,8"}), stages("9"), stages("3", {"--threads", "1"}),
                              stages("2", {"--processes"}), stages("3", with(gpipe, {"--processes"}))})
    EXPECT_EQ(digest_of(run(with(job, options))), whole) << testing::PrintToString(options);
}

/// With tables on servers; the trainers' batches end unequally, and the tutorial's are smaller than the micro-batches.
TEST(Pipeline, HasTheTablesInItsFirstStage) {
  for (const args& job : {args{"train", "--json", "--data", "adult", "--steps", "60", "--interaction", "dot",
                               "--hidden", "32,16", "--trainers", "3", "--micro-batches", "3", "--device", "cpu"},
                          args{"train", "--json", "--data", "tutorial", "--epochs", "3", "--micro-batches", "7",
                               "--hidden", "16", "--device", "cpu"}}) {
    const auto whole = last_event(run(job), "done");
    for (const args& options : {stages("2"), stages("3", with(gpipe, {"--servers", "2", "--processes"}))}) {
      const auto cut = last_event(run(with(job, options)), "done");
      EXPECT_EQ(cut.at("weights_digest"), whole.at("weights_digest")) << testing::PrintToString(options);
      EXPECT_EQ(cut.at("loss"), whole.at("loss"));
    }
  }
}

TEST(Pipeline, WorksWithWhatElseAStepMayHave) {
  const args job = with(layered_job(), in_four);
  for (const args& options :
       {args{"--accumulate", "3"}, args{"--clip-norm", "0.5"}, args{"--accumulate", "2", "--nan", "skip"},
        args{"--trainers", "1", "--accumulate", "2", "--clip-norm", "0.2"}, args{"--trainers", "3"}}) {
    const std::string whole = digest_of(run(with(job, options)));
    for (const args& cut : {stages("2"), stages("3", with(gpipe, {"--processes"}))})
      EXPECT_EQ(digest_of(run(with(job, with(options, cut)))), whole)
          << testing::PrintToString(options) << testing::PrintToString(cut);
  }
}

TEST(Pipeline, IsResumedWithOtherStages) {
  const args job = with(layered_job(), in_four);
  const std::string whole = digest_of(run(job));
  const model::checkpoint_folder folder;
  EXPECT_EQ(run(with(job, stages("3", {"--steps", "9", "--save", folder.path()}))).exit_code, 0);
  const args on = {"train", "--resume", folder.path(), "--device", "cpu", "--json", "--save", folder.path()};
  EXPECT_EQ(run(with(on, stages("2", {"--steps", "16", "--processes"}))).exit_code, 0);
  EXPECT_EQ(digest_of(run(with(on, {"--pipeline", "1", "--steps", "26"}))), whole);
}

TEST(Pipeline, OfAnMlpTakesImages) {
  const args job = {"train",           "--json", "--data",       written_images("train", 60),
                    "--classes",       "4",      "--epochs",     "1",
                    "--servers",       "0",      "--hidden",     "8",
                    "--micro-batches", "2",      "--batch-size", "16"};
  EXPECT_EQ(digest_of(run(with(job, stages("3")))), digest_of(run(job)));
}

/// The first stage has no step left: its request for the others' states may arrive before their order to train.
TEST(Pipeline, IsResumedAfterItsLastStep) {
  const args job = {"train", "--json", "--data", "tutorial", "--epochs", "2", "--hidden", "8", "--micro-batches", "2"};
  const model::checkpoint_folder folder;
  const std::string whole = digest_of(run(with(job, {"--save", folder.path()})));
  const args on = {"train", "--resume", folder.path(), "--json"};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(digest_of(run(with(on, stages("3", {"--processes"})))), whole);
}

TEST(Pipeline, OfAJobFileIsPutAside) {
  const std::string file = write_file("job.toml",
                                      "data = \"tutorial\"\nepochs = 1\nhidden = [8]\npipeline = 3\n"
                                      "schedule = \"gpipe\"\nstages = [0, 1, 2]\nmicro-batches = 3\n");
  const std::string cut = digest_of(run({"train", file, "--json"}));
  EXPECT_EQ(digest_of(run({"train", file, "--json", "--pipeline", "1"})), cut);
  EXPECT_EQ(digest_of(run({"train", file, "--json", "--pipeline", "2"})), cut);
}

TEST(Pipeline, TellsWhereItsStagesBegin) {
  const outcome ended = run({"train", "--data", "tutorial", "--epochs", "1", "--hidden", "8", "--pipeline", "3"});
  EXPECT_NE(ended.err.find("the stages begin at layers 0,1,2 (as --stages)"), std::string::npos) << ended.err;
}

TEST(Pipeline, HasAsManyMicroBatchesAsStagesUnlessTold) {
  const args job = layered_job();
  EXPECT_EQ(digest_of(run(with(job, stages("3")))), digest_of(run(with(job, {"--micro-batches", "3"}))));
}

TEST(Pipeline, LearnsWithStaleRowsAsTheWholeNetworkDoes) {
  const args job = {"train",      "--json", "--data",   "adult", "--steps",       "40",    "--hidden",        "16",
                    "--trainers", "1",      "--device", "cpu",   "--consistency", "ssp:2", "--micro-batches", "3"};
  EXPECT_EQ(digest_of(run(with(job, stages("2")))), digest_of(run(job)));
  args later = job;
  *std::ranges::find(later, "ssp:2") = "async";
  *(std::ranges::find(later, "--trainers") + 1) = "2";
  const auto done = last_event(run(with(later, stages("2"))), "done");
  EXPECT_EQ(done.at("steps").to_number<int>(), 40);
}

/// One row in each epoch has no finite loss: every stage of every replica skips its step.
TEST(Pipeline, LeavesAStepOutInAllStages) {
  std::string rows = "y,a,b\n";
  for (int row = 0; row < 40; ++row)
    rows += std::to_string(row % 3) + "," + (row == 7 ? "1e38" : std::to_string(row % 5)) + "," +
            std::to_string(row % 7) + "\n";
  const args job = {
      "train",
      "--json",
      "--data",
      "csv:" + write_file("rows.csv", rows),
      "--columns",
      R"([{"name": "y", "kind": "label"}, {"name": "a", "kind": "numeric"}, {"name": "b", "kind": "numeric"}])",
      "--loss",
      "mse",
      "--servers",
      "0",
      "--hidden",
      "8,4",
      "--batch-size",
      "5",
      "--epochs",
      "3",
      "--eval-every",
      "0",
      "--nan",
      "skip",
      "--dense-lr",
      "0.01",
      "--micro-batches",
      "2",
      "--device",
      "cpu"};
  const auto whole = last_event(run(job), "done");
  EXPECT_EQ(whole.at("skipped_steps"), 3);
  for (const args& options : {stages("2"), stages("3", with(gpipe, {"--processes"}))}) {
    const auto cut = last_event(run(with(job, options)), "done");
    EXPECT_EQ(cut.at("skipped_steps"), 3);
    EXPECT_EQ(cut.at("weights_digest"), whole.at("weights_digest"));
  }
}

TEST(Pipeline, NamesTheStageThatFindsNoFiniteLoss) {
  const outcome ended = run({"train", "--data", "adult", "--steps", "40", "--dense-lr", "1000000", "--hidden", "16,8",
                             "--device", "cpu", "--pipeline", "2", "--trainers", "1", "--dense-optimizer", "sgd"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_NE(ended.err.find("troupe: error: trainer 1, step "), std::string::npos) << ended.err;
}

TEST(Pipeline, GoesOnWhenAStageDies) {
  const args job = {"train",  "--json", "--data",   "tutorial", "--epochs",        "300", "--hidden", "16",
                    "--seed", "7",      "--device", "cpu",      "--micro-batches", "2"};
  const std::string whole = digest_of(run(job));
  const model::checkpoint_folder folder;
  program running(with(job, stages("2", {"--processes", "--save", folder.path(), "--checkpoint-every", "100"})));
  ASSERT_TRUE(running.wait_for_output("\"event\":\"checkpoint\",\"step\":200,")) << running.error();
  ASSERT_EQ(kill(process_of(running, "trainer 3"), SIGKILL), 0);
  const outcome ended = running.finish();
  EXPECT_EQ(digest_of(ended), whole) << ended.err;
  EXPECT_EQ(last_event(ended, "done").at("attempts").to_number<int>(), 2);
}

TEST(Pipeline, NamesAStageThatDiesAndIsNotReplaced) {
  const model::checkpoint_folder folder;
  program running({"train", "--processes", "--restarts", "0", "--data", "tutorial", "--epochs", "1000000", "--hidden",
                   "16", "--pipeline", "2", "--trainers", "1", "--json"});
  ASSERT_TRUE(running.wait_for_output(trains)) << running.error();
  ASSERT_EQ(kill(process_of(running, "trainer 1"), SIGKILL), 0);
  const outcome ended = running.finish();
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_NE(ended.err.find("trainer 1 (host "), std::string::npos) << ended.err;
}

TEST(Pipeline, ThatCannotBeIsRefused) {
  const auto said = [](const args& options) {
    return expect_error(run(with({"train", "--data", "adult"}, options)), 2);
  };
  EXPECT_EQ(said({"--pipeline", "9"}),
            "troupe: error: --pipeline 9: the network has only 5 layers (--hidden) to cut into stages; use at most 5");
  EXPECT_EQ(said({"--pipeline", "4", "--batch-size", "3"}),
            "troupe: error: --micro-batches 4: a batch has only 3 samples (--batch-size); use at most 3");
  EXPECT_EQ(said({"--schedule", "gpipe"}),
            "troupe: error: --schedule gpipe: is for jobs with --pipeline P of two stages or more; leave it out");
  EXPECT_NE(said({"--pipeline", "1", "--schedule", "pipedream"}).find("--schedule pipedream: is for jobs with --pipel"),
            std::string::npos);
  EXPECT_NE(said({"--pipeline", "1", "--stages", "0,3"}).find("--stages 0,3: is for jobs with --pipeline P of two"),
            std::string::npos);
  EXPECT_NE(said({"--pipeline", "2", "--stages", "0,7"}).find("there is no layer 7"), std::string::npos);
  EXPECT_NE(said({"--pipeline", "2", "--stages", "1,2"}).find("begin at 0 and rise"), std::string::npos);
  EXPECT_NE(said({"--pipeline", "2", "--schedule", "gipe"}).find("nearest is gpipe"), std::string::npos);
  EXPECT_NE(said({"--pipeline", "2", "--elastic", "1:2"}).find("--elastic changes the number of whole trainers"),
            std::string::npos);
  EXPECT_NE(said({"--pipeline", "2", "--trainers", "1000"}).find("are more than"), std::string::npos);
}

TEST(Pipeline, TellsWhatFewMicroBatchesCost) {
  const outcome ended = run({"train", "--data", "adult", "--steps", "2", "--pipeline", "3", "--micro-batches", "1"});
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_NE(
      ended.err.find("--micro-batches 1: fewer than the 3 stages, so stages of equal length have nothing to do for "
                     "67 % of a step; more take less"),
      std::string::npos)
      << ended.err;
}

/// A recording shows the passes of each stage: equally many forward and backward, in the schedule's order.
TEST(Pipeline, IsTracedPassByPass) {
  const model::checkpoint_folder traces;
  const outcome ended = run({"train", "--data", "adult", "--steps", "20", "--pipeline", "2", "--micro-batches", "4",
                             "--trainers", "1", "--trace", "full", "--trace-dir", traces.path(), "--json"});
  const double bubble = last_event(ended, "done").at("bubble").to_number<double>();
  EXPECT_GT(bubble, 0);
  EXPECT_LT(bubble, 1);
  const auto summary = boost::json::parse(run({"trace", "summary", traces.path(), "--json"}).out).as_object();
  const auto& pipeline = summary.at("pipeline").as_object();
  EXPECT_EQ(pipeline.at("steps").to_number<int>(), 20);
  const auto& both = pipeline.at("stages").as_array();
  ASSERT_EQ(both.size(), 2U);
  for (const auto& one : both) {
    EXPECT_EQ(one.at("forward").to_number<int>(), 80);
    EXPECT_EQ(one.at("backward").to_number<int>(), 80);
  }
  EXPECT_EQ(run({"trace", "check", traces.path()}).exit_code, 0);
}

TEST(Pipeline, IsReplayedWholeAndStageByStage) {
  const model::checkpoint_folder traces;
  run({"train", "--data", "adult", "--steps", "12", "--pipeline", "2", "--trainers", "2", "--trace", "payload",
       "--trace-dir", traces.path(), "--json"});
  const outcome whole = run({"trace", "replay", traces.path()});
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  for (const char* actor : {"trainer 0", "trainer 1", "trainer 3", "allreduce", "allreduce 1"}) {
    const outcome alone = run({"trace", "replay", traces.path(), "--actor", actor});
    EXPECT_EQ(alone.exit_code, 0) << actor << alone.err << alone.out;
  }
}

}  // namespace
}  // namespace troupe::end_to_end::pipeline_test
