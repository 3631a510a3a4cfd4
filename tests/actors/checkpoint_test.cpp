// Runs that save and resume: the final weights are those of an unbroken run, wherever it was interrupted and however
// many servers it resumed with; a failed checkpoint does not end the run.

#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>

#include "actors/common/faults.hpp"
#include "model/checkpoint/resume.hpp"
#include "tests/actors/run_stage.hpp"

namespace troupe::actors::checkpoint_test {
namespace {

class CheckpointRun : public run_stage {
 protected:
  CheckpointRun() {
    std::string pattern = (std::filesystem::temp_directory_path() / "troupe-checkpoint-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~CheckpointRun() override { std::filesystem::remove_all(folder_); }

  /// Keeps the rows in memory between runs.
  static void SetUpTestSuite() { rows_ = model::open_dataset(*model::parse_job({})).value(); }
  static void TearDownTestSuite() { rows_.reset(); }

  using settings = std::vector<model::setting>;

  /// Adam and momentum, so that there is state of every kind; epochs that a checkpoint may divide.
  static settings adult(const char* servers, const char* steps) {
    return {{"batch-size", "2000"},
            {"dense-optimizer", "adam"},
            {"sparse-optimizer", "sgd:momentum=0.9"},
            {"lr-schedule", "constant"},
            {"eval-every", "2"},
            {"servers", servers},
            {"steps", steps}};
  }

  std::shared_ptr<model::checkpoint_store> store(const model::resume_point* resumed = nullptr) {
    auto opened = model::checkpoint_store::open(folder_, resumed);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().message);
    return opened ? std::make_shared<model::checkpoint_store>(std::move(*opened)) : nullptr;
  }

  run_observer noting() {
    run_observer observer;
    observer.on_epoch = [this](const epoch_summary& e) { epochs_.push_back(e); };
    observer.on_checkpoint = [this](const checkpoint_summary& c) {
      taken_.push_back(c);
      time_counted_ = time_counted_ || time_counts();
    };
    return observer;
  }

  /// Runs to the end, from the newest checkpoint if `resumes`; saves every `every` steps (0: only at the end).
  msg::run_result finish(const settings& what, bool saves, std::uint64_t every, bool resumes) {
    epochs_.clear();
    taken_.clear();
    run_checkpoints checkpoints;
    std::optional<model::resume_point> from;
    if (resumes) {
      auto found = model::newest_whole_checkpoint(folder_);
      EXPECT_TRUE(found) << (found ? "" : found.error().message);
      if (!found) return {};
      from = std::move(*found);
      checkpoints.from = std::make_shared<const model::checkpoint>(from->what);
    }
    if (saves) checkpoints.store = store(from ? &*from : nullptr);
    checkpoints.every = every;
    checkpoints.seconds = by_time_;
    begin(what, noting(), std::move(checkpoints));
    run();
    EXPECT_TRUE(answer_->value) << protocol::describe(answer_->error);
    return answer_->value.value_or(msg::run_result{});
  }

  /// Returns the steps of the checkpoints taken under a `jumping_clock`.
  std::vector<std::uint64_t> steps_by_time(const settings& what, std::uint64_t every) {
    jumping_clock clock;
    install_faults(&clock);
    by_time_ = 50;
    finish(what, true, every, false);
    install_faults(nullptr);
    by_time_ = 0;
    std::vector<std::uint64_t> steps;
    for (const auto& one : taken_) steps.push_back(one.step);
    return steps;
  }

  /// Reads 100 s once server 0 applies step 7, and 200 s once it applies step 15.
  struct jumping_clock : fault_injector {
    void applying(std::uint32_t rank, std::uint64_t step) override {
      if (rank == 0) now = std::max<std::uint64_t>(now, step >= 15 ? 200 : step >= 7 ? 100 : 0);
    }
    std::chrono::steady_clock::time_point checkpoint_clock() override {
      return std::chrono::steady_clock::time_point(std::chrono::seconds(now));
    }
    std::uint64_t now = 0;
  };

  std::string folder_;
  double by_time_ = 0;  ///< seconds between checkpoints
  std::vector<epoch_summary> epochs_;
  std::vector<checkpoint_summary> taken_;
  bool time_counted_ = false;  ///< while a checkpoint was being written
  static inline std::shared_ptr<const model::dataset> rows_;
};

/// A checkpoint is reported while it still counts as being written.
TEST_F(CheckpointRun, WritesInTimeThatDoesNotCountForAStop) {
  finish(adult("1", "4"), true, 2, false);
  EXPECT_EQ(taken_.size(), 2U);
  EXPECT_FALSE(time_counted_);
  EXPECT_TRUE(time_counts());
}

TEST_F(CheckpointRun, BrokenAnywhereItEndsLikeAnUnbrokenOne) {
  const msg::run_result whole = finish(adult("1", "30"), false, 0, false);
  const std::vector<epoch_summary> whole_epochs = epochs_;
  for (const char* broken_at : {"1", "7", "9", "17", "18", "29", "30"}) {
    finish(adult("2", broken_at), true, 0, false);
    ASSERT_EQ(taken_.size(), 1u);
    for (const char* servers : {"1", "3"}) {
      const msg::run_result rest = finish(adult(servers, "30"), false, 0, true);
      EXPECT_EQ(rest.weights_digest, whole.weights_digest) << "broken at " << broken_at << ", " << servers;
      EXPECT_EQ(rest.steps, 30u);
      EXPECT_EQ(rest.samples, whole.samples) << broken_at;
      EXPECT_EQ(rest.loss, whole.loss) << broken_at;
      EXPECT_EQ(rest.auc, whole.auc) << broken_at;
      if (!epochs_.empty()) {
        EXPECT_EQ(epochs_.back().epoch, whole_epochs.back().epoch);
        EXPECT_EQ(epochs_.back().steps, whole_epochs.back().steps);
        EXPECT_EQ(epochs_.back().figures.loss, whole_epochs.back().figures.loss);
      }
    }
    std::filesystem::remove_all(folder_);
  }
}

TEST_F(CheckpointRun, CheckpointsComeAsOftenAsAskedAndAtTheEnd) {
  const msg::run_result saving = finish(adult("1", "25"), true, 10, false);
  ASSERT_EQ(taken_.size(), 3u);
  EXPECT_EQ(taken_[0].step, 10u);
  EXPECT_EQ(taken_[1].step, 20u);
  EXPECT_EQ(taken_[2].step, 25u);
  for (const auto& one : taken_) EXPECT_FALSE(one.problem);
  EXPECT_EQ(saving.weights_digest, finish(adult("1", "25"), false, 0, false).weights_digest)
      << "saving changes nothing";
  EXPECT_EQ(model::checkpoint_steps(folder_).value(), (std::vector<std::uint64_t>{25, 20}));
}

TEST_F(CheckpointRun, AccumulationIsNeverCut) {
  auto job = adult("1", "24");
  job.emplace_back("accumulate", "3");
  const msg::run_result whole = finish(job, true, 5, false);
  std::vector<std::uint64_t> steps;
  for (const auto& one : taken_) steps.push_back(one.step);
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{6, 12, 15, 21, 24}));
  std::filesystem::remove_all(folder_);
  auto half = job;
  half.push_back({"steps", "12"});
  finish(half, true, 0, false);
  EXPECT_EQ(finish(job, false, 0, true).weights_digest, whole.weights_digest);
}

// Rank 0 reads the clock in step 8, whose rows need step 7, and votes for a checkpoint after it; then again in step 16.
TEST_F(CheckpointRun, CheckpointsComeByTimeWhenAllRanksAgree) {
  using list = std::vector<std::uint64_t>;
  const std::string unsaved = finish(adult("1", "25"), false, 0, false).weights_digest;
  for (const char* trainers : {"1", "2", "3"}) {
    auto job = adult("2", "25");
    job.emplace_back("trainers", trainers);
    EXPECT_EQ(steps_by_time(job, 0), (list{8, 16, 25})) << trainers << " trainers";
    std::filesystem::remove_all(folder_);
  }
  EXPECT_EQ(steps_by_time(adult("1", "25"), 10), (list{8, 10, 16, 20, 25})) << "beside those by steps";
  std::filesystem::remove_all(folder_);
  finish(adult("3", "16"), true, 7, false);
  EXPECT_EQ(finish(adult("1", "25"), false, 0, true).weights_digest, unsaved);
}

// Step 7 is applied with step 9, so step 12 is the first that can end with a checkpoint; step 15 ends an optimizer
// step.
TEST_F(CheckpointRun, CheckpointsByTimeNeverCutAnOptimizerStep) {
  auto job = adult("1", "24");
  job.emplace_back("accumulate", "3");
  EXPECT_EQ(steps_by_time(job, 0), (std::vector<std::uint64_t>{12, 18, 24}));
}

TEST_F(CheckpointRun, AWishToStopLeavesACheckpointToGoOnFrom) {
  const msg::run_result whole = finish(adult("1", "30"), false, 0, false);
  run_checkpoints checkpoints;
  checkpoints.store = store();
  begin(adult("2", "30"), noting(), checkpoints);
  handle(400);
  caf::anon_send(master_, msg::stop{});
  run();
  ASSERT_TRUE(answer_->value) << protocol::describe(answer_->error);
  EXPECT_TRUE(answer_->value->stopped);
  EXPECT_LT(answer_->value->steps, 30u);
  checkpoints.store.reset();
  const msg::run_result rest = finish(adult("3", "30"), false, 0, true);
  EXPECT_EQ(rest.weights_digest, whole.weights_digest);
  EXPECT_EQ(rest.samples, whole.samples);
  EXPECT_EQ(rest.loss, whole.loss);
}

// Two trainers take nine steps per epoch.
TEST_F(CheckpointRun, AFinishedRunIsEvaluatedWhenItsFiguresAreMissing) {
  auto blind = adult("1", "18");
  blind.emplace_back("eval-every", "0");
  const msg::run_result whole = finish(adult("1", "18"), false, 0, false);
  const std::vector<epoch_summary> whole_epochs = epochs_;
  ASSERT_EQ(whole_epochs.size(), 2u);
  EXPECT_EQ(finish(blind, true, 0, false).auc, std::nullopt);
  for (const bool missing : {true, false}) {
    const msg::run_result seen = finish(adult("2", "18"), true, 0, true);
    EXPECT_EQ(seen.auc, whole.auc);
    EXPECT_EQ(seen.log_loss, whole.log_loss);
    EXPECT_EQ(seen.loss, whole.loss);
    EXPECT_EQ(seen.samples, whole.samples);
    ASSERT_EQ(epochs_.size(), missing ? 1u : 0u) << "evaluated once, then its figures are in the checkpoint";
    if (!missing) continue;
    EXPECT_EQ(epochs_[0].epoch, 2u);
    EXPECT_EQ(epochs_[0].step, 18u);
    EXPECT_EQ(epochs_[0].samples, 0u);
    EXPECT_EQ(epochs_[0].figures, whole_epochs[1].figures);
  }
}

TEST_F(CheckpointRun, ARunStoppedAtItsLastStepIsEvaluatedByTheOneThatGoesOn) {
  const msg::run_result whole = finish(adult("1", "18"), false, 0, false);
  run_checkpoints checkpoints;
  checkpoints.store = store();
  // The request to stop arrives before the rows of the last step.
  struct stopping : fault_injector {
    void applying(std::uint32_t, std::uint64_t step) override {
      if (step == 17) caf::anon_send(receiver, msg::stop{});
    }
    msg::trainer_actor receiver;
  } late;
  begin(adult("1", "18"), {}, checkpoints);
  late.receiver = trainers_[0];
  install_faults(&late);
  run();
  install_faults(nullptr);
  ASSERT_TRUE(answer_->value) << protocol::describe(answer_->error);
  EXPECT_TRUE(answer_->value->stopped);
  EXPECT_EQ(answer_->value->steps, 18u);
  EXPECT_EQ(answer_->value->auc, std::nullopt);
  checkpoints.store.reset();
  EXPECT_EQ(finish(adult("1", "18"), false, 0, true).auc, whole.auc);
}

TEST_F(CheckpointRun, ABeginningIsSavedToo) {
  run_checkpoints checkpoints;
  checkpoints.store = store();
  begin(adult("1", "30"), noting(), std::move(checkpoints));
  handle(20);
  EXPECT_EQ(model::checkpoint_steps(folder_).value(), (std::vector<std::uint64_t>{0}));
  caf::anon_send_exit(master_, caf::exit_reason::kill);
  run();
  const std::string digest = finish(adult("1", "30"), false, 0, true).weights_digest;
  EXPECT_EQ(digest, finish(adult("1", "30"), false, 0, false).weights_digest);
}

TEST_F(CheckpointRun, ADiskThatIsFullIsToldAndTrainingGoesOn) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  const std::string digest = finish(adult("1", "20"), false, 0, false).weights_digest;
  rlimit small = before;
  small.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const msg::run_result full = finish(adult("2", "20"), true, 10, false);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);
  EXPECT_EQ(full.weights_digest, digest);
  ASSERT_EQ(taken_.size(), 2u);
  for (const auto& one : taken_) {
    ASSERT_TRUE(one.problem) << one.step;
    EXPECT_EQ(one.problem->kind, fault_kind::run);
    EXPECT_NE(one.problem->message.find(folder_), std::string::npos) << one.problem->message;
  }
  EXPECT_EQ(model::checkpoint_steps(folder_).value(), (std::vector<std::uint64_t>{0})) << "what was whole stays";
}

TEST_F(CheckpointRun, AJobThatEndsBeforeTheCheckpointIsRefused) {
  finish(adult("1", "12"), true, 0, false);
  run_checkpoints checkpoints;
  checkpoints.from = std::make_shared<const model::checkpoint>(model::newest_whole_checkpoint(folder_)->what);
  begin(adult("1", "11"), {}, checkpoints);
  run();
  EXPECT_EQ(answer_->error, protocol::errc::bad_input);
  EXPECT_NE(protocol::describe(answer_->error).find("of step 12"), std::string::npos)
      << protocol::describe(answer_->error);
}

}  // namespace
}  // namespace troupe::actors::checkpoint_test
