// Goal: trainers join and leave a run between attempts. Its weights depend only on the job, the seed and the list of
// memberships; each row is used once an epoch, and each epoch is reported once.
// Method: the same lists in one process, in several, with lost processes, requested during the run, and resumed.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/end_to_end/several.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::elastic_test {
namespace {

/// 3 epochs of 128 steps of 256 rows.
const args job = {"--data", "adult", "--epochs", "3", "--servers", "2", "--seed", "5"};
constexpr std::uint64_t rows = 32561;
constexpr const char* ups_and_downs = "0:2,50:4,128:1,200:3";

args elastic(const args& more) { return with(with({"train", "--json", "--elastic", "1:8"}, job), more); }

/// The outcome of a run of the list ups_and_downs in one process.
const outcome& planned() {
  static const outcome ended = [] {
    const model::checkpoint_folder folder;
    return run(elastic({"--memberships", ups_and_downs, "--save", folder.path()}));
  }();
  return ended;
}

double loss_of(const boost::json::object& event) { return event.at("loss").to_number<double>(); }

class Elastic : public testing::Test {
 protected:
  args saving() const { return {"--save", folder_.path()}; }

  const model::checkpoint_folder folder_;
};

TEST_F(Elastic, TrainsWithEachRowOnceAnEpoch) {
  ASSERT_FALSE(digest_of(planned()).empty()) << planned().err;
  expect_epochs(planned(), 3);
  const auto done = last_event(planned(), "done");
  EXPECT_EQ(done.at("samples").to_number<std::uint64_t>(), 3 * rows);
  EXPECT_EQ(done.at("steps").to_number<int>(), 384);
  EXPECT_EQ(done.at("attempts").to_number<int>(), 4);
  EXPECT_EQ(done.at("goodput").to_number<double>(), 1);
  EXPECT_EQ(done.at("memberships").as_string(), ups_and_downs);
  std::vector<std::pair<int, int>> changes;
  for (const auto& one : events_of(planned(), "attempt"))
    changes.emplace_back(one.at("from_step").to_number<int>(), one.at("trainers").to_number<int>());
  EXPECT_EQ(changes, (std::vector<std::pair<int, int>>{{50, 4}, {128, 1}, {200, 3}}));
}

/// Both runs use the same samples in each step; only the order of summing gradients differs.
TEST_F(Elastic, LearnsAsWithAFixedNumberOfTrainers) {
  const outcome fixed = run(with({"train", "--json", "--trainers", "2"}, job));
  const auto expected = events_of(fixed, "epoch");
  const auto epochs = events_of(planned(), "epoch");
  ASSERT_EQ(epochs.size(), expected.size());
  for (std::size_t i = 0; i < epochs.size(); ++i) EXPECT_NEAR(loss_of(epochs[i]), loss_of(expected[i]), 2e-3);
  EXPECT_NEAR(loss_of(epochs[0]), loss_of(expected[0]), 1e-5);
}

TEST_F(Elastic, HasTheSameWeightsInSeveralProcesses) {
  const outcome ended = run(elastic(with({"--processes", "--memberships", ups_and_downs}, saving())));
  EXPECT_EQ(digest_of(ended), digest_of(planned())) << ended.err;
  expect_epochs(ended, 3);
}

TEST_F(Elastic, HasTheSameWeightsAfterLosses) {
  program running(elastic(with({"--processes", "--memberships", ups_and_downs, "--checkpoint-every", "10"}, saving())));
  for (const int step : {20, 70, 150, 250}) {
    ASSERT_TRUE(running.wait_for_output(fmt::format("\"event\":\"checkpoint\",\"step\":{},", step))) << running.error();
    const std::vector<pid_t> children = children_of(running.process());
    ASSERT_FALSE(children.empty());
    kill(step == 150 ? leader_of(running.process()) : children[static_cast<std::size_t>(step) % children.size()],
         SIGKILL);
  }
  const outcome ended = running.finish();
  EXPECT_EQ(digest_of(ended), digest_of(planned())) << ended.err;
  expect_epochs(ended, 3);
  EXPECT_EQ(last_event(ended, "done").at("memberships").as_string(), ups_and_downs);
}

TEST_F(Elastic, GoesOnFromACheckpointWithTheRestOfItsMemberships) {
  ASSERT_EQ(run(elastic(with({"--memberships", ups_and_downs, "--steps", "90"}, saving()))).exit_code, 0);
  const outcome ended = run({"train", "--json", "--resume", folder_.path(), "--save", folder_.path(), "--epochs", "3"});
  EXPECT_EQ(digest_of(ended), digest_of(planned())) << ended.err;
}

TEST_F(Elastic, GoesOnFromACheckpointWithOtherTrainers) {
  ASSERT_EQ(run(with({"train", "--trainers", "2", "--steps", "50"}, with(job, saving()))).exit_code, 0);
  const args on = {"train", "--json", "--resume", folder_.path(), "--save", folder_.path(), "--epochs", "3"};
  const outcome ended = run(with(on, {"--elastic", "1:8", "--trainers", "5"}));
  const model::checkpoint_folder other;
  const outcome same = run(elastic({"--memberships", "0:2,50:5", "--save", other.path()}));
  EXPECT_EQ(digest_of(ended), digest_of(same)) << ended.err;
  EXPECT_EQ(last_event(ended, "done").at("memberships").as_string(), "0:2,50:5");
}

TEST_F(Elastic, KeepsTheBatchOfATrainerIfAskedTo) {
  const outcome ended = run(elastic(
      with({"--memberships", "0:2,50:4,100:8", "--elastic-batch", "rank", "--elastic-lr", "linear"}, saving())));
  const auto epochs = events_of(ended, "epoch");
  ASSERT_EQ(epochs.size(), 3u) << ended.err;
  // 50 steps of 256 rows, then 39 of 512, the last one short; 11 of 512, then 26 of 1,024; 32 of 1,024.
  EXPECT_EQ(epochs[0].at("steps").to_number<int>(), 89);
  EXPECT_EQ(epochs[1].at("steps").to_number<int>(), 11 + 27);
  EXPECT_EQ(epochs[2].at("steps").to_number<int>(), 32);
  EXPECT_EQ(last_event(ended, "done").at("samples").to_number<std::uint64_t>(), 3 * rows);
  EXPECT_NE(digest_of(ended), digest_of(run(elastic({"--memberships", "0:2,50:4,100:8", "--elastic-batch", "rank",
                                                     "--save", folder_.path() + "-other"}))));
}

/// Memberships change every few steps, up and down, in separate processes.
TEST_F(Elastic, SurvivesAStormOfJoinsAndLeaves) {
  std::string list = "0:1";
  for (int i = 1; i <= 20; ++i) list += fmt::format(",{}:{}", 7 * i, 1 + (i * 5) % 7);
  const model::checkpoint_folder other;
  const outcome in_one =
      run(elastic({"--memberships", list, "--steps", "150", "--batch-size", "64", "--save", other.path()}));
  const outcome in_many =
      run(elastic(with({"--processes", "--memberships", list, "--steps", "150", "--batch-size", "64"}, saving())));
  EXPECT_EQ(digest_of(in_many), digest_of(in_one)) << in_many.err;
  EXPECT_EQ(last_event(in_many, "done").at("memberships").as_string(), list);
}

// -- while it runs ------------------------------------------------------------------

/// Asks a master, which may be slow on a busy machine.
outcome ask(const args& question) { return run(with(question, {"--timeout", "60"}), with_token()); }

/// Waits until the run trains with `from` trainers, and asks for `to`.
void scale(const std::string& where, int from, int to) {
  ASSERT_TRUE(comes_true([&] {
    const outcome now = ask({"status", where, "--json"});
    if (now.exit_code != 0) return false;  // between two attempts
    const auto told = last_event(now, "status");
    return told.at("phase").as_string() == "training" && told.at("trainers").to_number<int>() == from;
  }));
  const outcome asked = ask({"scale", where, "--trainers", std::to_string(to), "--json"});
  EXPECT_EQ(asked.exit_code, 0) << asked.err;
  EXPECT_EQ(last_event(asked, "scale").at("trainers").to_number<int>(), to);
}

/// Expects that a run with the same memberships from the beginning has the same weights.
void expect_repeatable(const outcome& ended, const args& what) {
  const std::string digest = digest_of(ended);
  const std::string list(last_event(ended, "done").at("memberships").as_string());
  const model::checkpoint_folder other;
  EXPECT_EQ(digest_of(run(with(what, {"--memberships", list, "--save", other.path()}))), digest) << list;
}

TEST_F(Elastic, IsScaledByACommandWithProcesses) {
  const args long_job = with({"train", "--json", "--elastic", "1:8", "--batch-size", "32"},
                             {"--data", "adult", "--epochs", "12", "--servers", "1", "--eval-every", "4"});
  program running(with(long_job, with({"--processes", "--trainers", "2"}, saving())), with_token());
  ASSERT_TRUE(running.wait_for_error("listening on ")) << running.error();
  const std::string line = line_with(running.error(), "listening on ");
  const std::string where = line.substr(line.find(" on ") + 4, line.find(" for ") - line.find(" on ") - 4);
  scale(where, 2, 4);
  scale(where, 4, 1);
  const outcome ended = running.finish();
  expect_epochs(ended, 12);
  EXPECT_EQ(last_event(ended, "done").at("attempts").to_number<int>(), 3);
  EXPECT_EQ(last_event(ended, "done").at("samples").to_number<std::uint64_t>(), 12 * rows);
  expect_repeatable(ended, long_job);
}

TEST_F(Elastic, OfAGatheredRunTakesInNewMembersAndLetsOthersGo) {
  const args long_job = {"--elastic", "1:8",      "--batch-size", "32",           "--data",
                         "adult",     "--epochs", "12",           "--eval-every", "4"};
  gathered_run several(with(with(long_job, {"--trainers", "2"}), saving()));
  several.join_all(1, 2);
  scale(several.where(), 2, 3);
  several.join_as("trainer");
  scale(several.where(), 3, 1);
  const outcome ended = several.master().finish();
  for (const outcome& one : several.finish_members(0)) EXPECT_EQ(one.err.find("error"), std::string::npos) << one.err;
  expect_epochs(ended, 12);
  EXPECT_EQ(last_event(ended, "done").at("attempts").to_number<int>(), 3);
  expect_repeatable(ended, with({"train", "--json"}, long_job));
}

TEST_F(Elastic, IsNotScaledBeyondItsRangeNorIfItIsNotElastic) {
  gathered_run several(
      with(with({"--elastic", "1:3", "--trainers", "2"}, {"--data", "adult", "--epochs", "1000000"}), saving()));
  const auto refused = [&](const char* trainers) {
    return expect_error(ask({"scale", several.where(), "--trainers", trainers}), 1);
  };
  EXPECT_FINDS(refused("3"), "the run is not training (it is waiting for members)");
  several.join_all(1, 2);
  ASSERT_TRUE(several.master().wait_for_output(trains)) << several.master().error();
  EXPECT_FINDS(refused("4"), "--trainers 4: must be between 1 and 3 (--elastic)");
  EXPECT_FINDS(refused("2"), "--trainers 2: the run has 2 trainers already");
  EXPECT_EQ(ask({"stop", several.where()}).exit_code, 0);
  several.finish();

  // The job prints few lines, since the test does not read them while it asks.
  gathered_run fixed({"--data", "adult", "--epochs", "1000000", "--trainers", "1"});
  fixed.join_all(1, 1);
  ASSERT_TRUE(fixed.master().wait_for_output(trains)) << fixed.master().error();
  const std::string line = expect_error(ask({"scale", fixed.where(), "--trainers", "2"}), 1);
  EXPECT_FINDS(line, "only one with --elastic MIN:MAX can have others");
  EXPECT_EQ(ask({"stop", fixed.where()}).exit_code, 0);
  fixed.finish();
}

TEST_F(Elastic, RefusesWhatItCannotKeep) {
  const auto refused = [](args all) {
    std::erase(all, "--json");
    return expect_error(run(all), 2);
  };
  EXPECT_FINDS(refused(elastic({"--trainers", "2"})), "needs --save DIR and --restarts above 0");
  EXPECT_NE(refused(elastic(with({"--restarts", "0"}, saving()))).find("needs --save DIR and --restarts above 0"),
            std::string::npos);
  EXPECT_NE(refused(elastic(with({"--trainers", "3", "--memberships", "0:2,50:3"}, saving())))
                .find("--trainers 3: --memberships begins with 2"),
            std::string::npos);
  ASSERT_EQ(run(elastic(with({"--memberships", "0:2,50:3", "--steps", "90"}, saving()))).exit_code, 0);
  const args on = {"train", "--json", "--resume",     folder_.path(), "--restarts",
                   "3",     "--save", folder_.path(), "--steps",      "120"};
  EXPECT_NE(refused(with(on, {"--memberships", "0:2,60:3"}))
                .find("the run of the checkpoint had others before step 90: 0:2,50:3"),
            std::string::npos);
  EXPECT_NE(refused(with(on, {"--memberships", "0:2,50:3,100:4", "--trainers", "5"}))
                .find("--trainers 5: --memberships has 3 in step 90"),
            std::string::npos);
  EXPECT_FINDS(refused(with(on, {"--trainers", "9"})), "9 trainers from step 90 on: must be between 1 and 8");
  EXPECT_EQ(run(with(on, {"--memberships", "0:2,50:3,100:4", "--trainers", "2"})).exit_code, 0)
      << "as the run's own command line has it";
}

}  // namespace
}  // namespace troupe::end_to_end::elastic_test
