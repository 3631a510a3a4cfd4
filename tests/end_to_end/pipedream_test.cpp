// Goal: where steps of a pipeline overlap, each stage trains with the weights that PipeDream uses, whatever the
// placement. Method: PyTorch's float64 reference runs (tests/reference_runs/pipedream), and digests of the same job.

#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "tests/end_to_end/layered_job.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::pipedream_test {
namespace {

args streamed(const std::string& stages, const args& further = {}) {
  return with({"--pipeline", stages, "--schedule", "pipedream"}, further);
}

/// Has tables on servers; an epoch has 122 steps, the last one with a short batch for some trainers.
args adult(const std::string& steps = "40") {
  return {"train", "--json", "--data", "adult", "--steps", steps, "--hidden", "24,12", "--device", "cpu"};
}

std::string reference(const std::string& name) {
  return std::string(TROUPE_REFERENCE_RUNS) + "/pipedream/" + name + ".safetensors";
}

struct reference_job {
  const char* run;
  const char* stages;
  const char* begins;
};

args parity(const reference_job& one, const args& options) {
  return with({"parity", reference(one.run), "--json"}, streamed(one.stages, with({"--stages", one.begins}, options)));
}

TEST(Pipedream, TrainsWhatPyTorchDoes) {
  for (const reference_job& one : {reference_job{"features_0_3", "2", "0,3"},
                                   {"features_0_3_5", "3", "0,3,5"},
                                   {"features_0_2_4_6_7", "5", "0,2,4,6,7"}})
    for (const args& options : {args{}, args{"--processes"}}) {
      const outcome ended = run(parity(one, options));
      EXPECT_EQ(ended.exit_code, 0) << one.run << ended.out << ended.err;
    }
  const outcome other = run({"parity", reference("features_0_3_5"), "--json", "--pipeline", "3", "--schedule", "1f1b"});
  EXPECT_EQ(other.exit_code, 1) << "what does not overlap has other weights" << other.out;
}

/// Looked-up rows are as old as the first stage's weights, and get their gradients in step order.
TEST(Pipedream, TrainsTablesAsPyTorchDoes) {
  for (const reference_job& one : {reference_job{"tables_0_2", "2", "0,2"},
                                   {"tables_0_3", "2", "0,3"},
                                   {"tables_0_1_4", "3", "0,1,4"},
                                   {"tables_0_2_4", "3", "0,2,4"}}) {
    for (const char* servers : {"1", "2"})
      for (const args& options : {args{}, args{"--processes"}}) {
        const outcome ended = run(parity(one, with({"--servers", servers}, options)));
        EXPECT_EQ(ended.exit_code, 0) << one.run << " servers: " << servers << ended.out << ended.err;
      }
    const outcome other = run({"parity", reference(one.run), "--json", "--pipeline", one.stages, "--schedule", "1f1b"});
    EXPECT_EQ(other.exit_code, 1) << "what does not overlap has other weights" << other.out;
  }
}

TEST(Pipedream, HasTheSameBitsWhereverItsStagesAre) {
  for (const args& job : {with(adult("250"), {"--trainers", "3"}), with(adult(), {"--trainers", "1"}), layered_job()})
    for (const char* stages : {"2", "5"}) {
      const std::string expected = digest_of(run(with(job, streamed(stages))));
      for (const args& options : {args{"--processes"}, args{"--threads", "1"}, args{"--threads", "3"}})
        EXPECT_EQ(digest_of(run(with(job, streamed(stages, options)))), expected)
            << stages << testing::PrintToString(options);
    }
  const args two_servers = with(adult(), {"--servers", "3", "--processes"});
  EXPECT_EQ(digest_of(run(with(two_servers, streamed("3")))), digest_of(run(with(adult(), streamed("3")))));
}

TEST(Pipedream, TellsHowStaleItIs) {
  for (const int stages : {2, 4}) {
    const auto done = last_event(run(with(adult(), streamed(std::to_string(stages)))), "done");
    EXPECT_EQ(done.at("staleness_max").to_number<int>(), stages - 1);
    // The first steps lag behind by fewer updates: 0, 1, ...
    const double lacking = 40.0 * (stages - 1) - (stages - 1) * stages / 2.0;
    EXPECT_DOUBLE_EQ(done.at("staleness_mean").to_number<double>(), lacking / 40);
  }
}

/// The pipeline is empty at a checkpoint, so the run resumes from there unchanged.
TEST(Pipedream, IsResumedWhereItWasEmpty) {
  const model::checkpoint_folder whole_folder;
  const args saving = {"--checkpoint-every", "15", "--save"};
  const std::string whole = digest_of(run(with(adult(), streamed("3", with(saving, {whole_folder.path()})))));
  EXPECT_NE(whole, digest_of(run(with(adult(), streamed("3"))))) << "a checkpoint empties the pipeline";
  const model::checkpoint_folder folder;
  EXPECT_EQ(run(with(adult("30"), streamed("3", with(saving, {folder.path()})))).exit_code, 0);
  const outcome resumed = run({"train", "--resume", folder.path(), "--steps", "40", "--device", "cpu", "--json",
                               "--processes", "--save", folder.path(), "--checkpoint-every", "15"});
  EXPECT_EQ(digest_of(resumed), whole) << resumed.err;
}

/// The weights belong to the stages that they were saved with.
TEST(Pipedream, IsResumedWithItsOwnStagesOnly) {
  const model::checkpoint_folder folder;
  ASSERT_EQ(run(with(adult("20"), streamed("3", {"--save", folder.path()}))).exit_code, 0);
  const args on = {"train", "--resume", folder.path(), "--steps", "30", "--device", "cpu"};
  const std::string expected = digest_of(run(with(on, {"--json"})));
  EXPECT_EQ(digest_of(run(with(on, {"--json", "--pipeline", "3"}))), expected);
  EXPECT_EQ(digest_of(run(with(on, streamed("3", {"--json"})))), expected);
  EXPECT_NE(digest_of(run(with(adult("30"), {"--pipeline", "3"}))), expected);
  const auto refused = [&](const args& options, const std::string& what) {
    const std::string said = expect_error(run(with(on, options)), 2);
    EXPECT_FINDS(said, what + ": the run of the checkpoint has ");
  };
  refused({"--pipeline", "2"}, "--pipeline 2");
  refused({"--pipeline", "1"}, "--pipeline 1");
  refused({"--schedule", "1f1b"}, "--schedule 1f1b");
  refused({"--stages", "0,1,2"}, "--stages 0,1,2");
  const model::checkpoint_folder in_step;
  ASSERT_EQ(run(with(adult("20"), {"--pipeline", "3", "--save", in_step.path()})).exit_code, 0);
  const std::string said = expect_error(run(with({"train", "--resume", in_step.path()}, streamed("3"))), 2);
  EXPECT_FINDS(said, "--schedule pipedream: the run of the checkpoint has --schedule 1f1b");
}

TEST(Pipedream, StopsWhereItsStagesAreEmpty) {
  const model::checkpoint_folder folder;
  program running(with(adult("100000000"), streamed("3", {"--save", folder.path()})));
  ASSERT_TRUE(running.wait_for_output("\"event\":\"epoch\"")) << running.error();
  running.send(SIGINT);
  const outcome ended = running.finish();
  const auto done = last_event(ended, "done");
  EXPECT_EQ(done.at("stopped"), true) << ended.out << ended.err;
}

TEST(Pipedream, GoesOnWhenAStageDies) {
  const args job = {"train",  "--json", "--data",   "tutorial", "--epochs",           "300", "--hidden", "16",
                    "--seed", "7",      "--device", "cpu",      "--checkpoint-every", "100", "--save"};
  const model::checkpoint_folder unbroken;
  const std::string whole = digest_of(run(with(job, with({unbroken.path()}, streamed("2")))));
  const model::checkpoint_folder folder;
  program running(with(job, with({folder.path()}, streamed("2", {"--processes"}))));
  ASSERT_TRUE(running.wait_for_output("\"event\":\"checkpoint\",\"step\":200,")) << running.error();
  ASSERT_EQ(kill(process_of(running, "trainer 3"), SIGKILL), 0);
  const outcome ended = running.finish();
  EXPECT_EQ(digest_of(ended), whole) << ended.err;
  EXPECT_EQ(last_event(ended, "done").at("attempts").to_number<int>(), 2);
}

TEST(Pipedream, ThatCannotBeIsRefused) {
  const auto said = [](const args& options) {
    return expect_error(run(with({"train", "--data", "adult"}, streamed("2", options))), 2);
  };
  const auto expect = [&](const args& options, const char* args) { EXPECT_FINDS(said(options), args); };
  expect({"--accumulate", "2"}, "--accumulate 2: --schedule pipedream takes an optimizer step for each batch");
  expect({"--clip-norm", "1"}, "--clip-norm 1: with --schedule pipedream stages apply a gradient before");
  expect({"--nan", "skip"}, "--nan skip: with --schedule pipedream");
  expect({"--micro-batches", "2"}, "--micro-batches 2: --schedule pipedream passes whole batches");
  expect({"--tensor-parallel", "2"}, "--tensor-parallel 2: slices work with --schedule gpipe and 1f1b");
  expect({"--consistency", "async"}, "--consistency async: with --schedule pipedream and 2 stages, rows lack up to 1");
  expect({"--save", "/tmp/none", "--checkpoint-seconds", "1"}, "--checkpoint-seconds 1: with --schedule pipedream");
  EXPECT_NE(expect_error(run({"train", "--data", "adult", "--hidden", "9,8,7,6,5,4", "--pipeline", "10", "--schedule",
                              "pipedream"}),
                         2)
                .find("--pipeline 10: with --schedule pipedream there are at most 9 stages"),
            std::string::npos);
}

/// Steps overlap in the trace: its readers find no fault, and replays reproduce the run.
TEST(Pipedream, IsTracedAndReplayed) {
  const model::checkpoint_folder traces;
  run(with(adult("20"),
           streamed("3", {"--trainers", "2", "--servers", "2", "--trace", "payload", "--trace-dir", traces.path()})));
  const outcome checked = run({"trace", "check", traces.path()});
  EXPECT_EQ(checked.exit_code, 0) << checked.out << checked.err;
  const auto summary = boost::json::parse(run({"trace", "summary", traces.path(), "--json"}).out).as_object();
  const auto& pipeline = summary.at("pipeline").as_object();
  EXPECT_EQ(pipeline.at("steps"), 20);
  EXPECT_LE(pipeline.at("bubble").to_number<double>(), 1);
  for (const auto& one : pipeline.at("stages").as_array()) {
    EXPECT_EQ(one.at("forward"), 20);
    EXPECT_EQ(one.at("backward"), 20);
  }
  EXPECT_EQ(run({"trace", "critical-path", traces.path()}).exit_code, 0);
  const outcome whole = run({"trace", "replay", traces.path()});
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  for (const char* actor : {"trainer 0", "trainer 1", "trainer 5", "allreduce 1"}) {
    const outcome alone = run({"trace", "replay", traces.path(), "--actor", actor});
    EXPECT_EQ(alone.exit_code, 0) << actor << alone.err << alone.out;
  }
}

}  // namespace
}  // namespace troupe::end_to_end::pipedream_test
