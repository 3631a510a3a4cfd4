// Ranks' reports of epochs, in any order, add up to the run's figures.

#include "actors/master/run_figures.hpp"

#include "tests/actors/master_parts.hpp"

namespace troupe::actors::run_figures_test {
namespace {

class RunFigures : public master_parts_stage {
 protected:
  RunFigures() { plan({}, 0, 2); }

  static msg::epoch_report report(std::uint64_t epoch, std::uint32_t rank, double loss_sum,
                                  std::uint64_t samples = 10) {
    msg::epoch_report made;
    made.head.step = 4 * epoch;
    made.rank = rank;
    made.epoch = epoch;
    made.steps = 4;
    made.samples = samples;
    made.seconds = 1 + rank;
    made.loss_sum = loss_sum;
    made.losses = msg::tensor::own(1, 1, std::vector<double>{1});
    made.skipped = 1;
    made.lookups = 3;
    made.staleness_sum = 2 + rank;
    made.staleness_max = static_cast<std::uint32_t>(epoch);
    return made;
  }

  static std::vector<std::uint64_t> epochs_of(const std::vector<epoch_summary>& all) {
    std::vector<std::uint64_t> numbers;
    for (const auto& one : all) numbers.push_back(one.epoch);
    return numbers;
  }

  run_figures figures_;
};

TEST_F(RunFigures, EpochsAreToldInTheirOrderHoweverTheRanksReport) {
  figures_.start(plan_);
  EXPECT_TRUE(figures_.add(report(2, 1, 6)).empty());
  EXPECT_TRUE(figures_.add(report(1, 0, 10)).empty());
  EXPECT_TRUE(figures_.add(report(2, 0, 4)).empty()) << "the first is not complete";
  EXPECT_EQ(epochs_of(figures_.add(report(1, 1, 30))), (std::vector<std::uint64_t>{1, 2}));
  msg::run_result result;
  figures_.set_up_took(0.5);
  figures_.fill(result);
  EXPECT_EQ(result.samples, 40u);
  EXPECT_EQ(result.seconds, 2 + 2) << "of each epoch the slowest rank's";
  EXPECT_EQ(result.setup_seconds, 0.5);
  EXPECT_EQ(result.loss, (6.0 + 4.0) / 20) << "the last epoch's";
  EXPECT_EQ(result.skipped_steps, 2u) << "all ranks skip the same";
  EXPECT_EQ(result.staleness_max, 2u);
  EXPECT_EQ(result.staleness_mean, (2.0 + 3.0 + 2.0 + 3.0) / 12);
}

TEST_F(RunFigures, AnEpochThatIsEvaluatedWaitsForAllShares) {
  figures_.start(plan_);
  for (const std::uint32_t rank : {0U, 1U}) {
    auto made = report(1, rank, 5);
    made.evaluates = true;
    EXPECT_TRUE(figures_.add(std::move(made)).empty());
  }
  msg::evaluation share;
  share.rank = 1;
  share.epoch = 1;
  share.rows = 4;
  share.correct = 3;
  EXPECT_TRUE(figures_.add(msg::evaluation(share)).empty());
  share.rank = 0;
  const auto complete = figures_.add(std::move(share));
  ASSERT_EQ(complete.size(), 1u);
  EXPECT_EQ(complete[0].figures.accuracy, 0.75);
}

TEST_F(RunFigures, ARunThatGoesOnCountsOn) {
  model::checkpoint_manifest saved;
  saved.step = 4;
  saved.position.samples = 100;
  saved.position.seconds = 8;
  saved.position.skipped_steps = 3;
  saved.position.last_epoch = model::epoch_figures{};
  saved.position.last_epoch->loss = 0.125;
  plan_.steps_done = 4;
  plan_.checkpoints.from =
      std::make_shared<const model::checkpoint>(model::checkpoint{.directory = "", .manifest = saved});
  figures_.start(plan_);
  EXPECT_EQ(figures_.so_far().samples, 100u);
  EXPECT_EQ(figures_.so_far().figures.loss, 0.125);
  for (const std::uint32_t rank : {0U, 1U}) figures_.add(report(2, rank, 10));
  EXPECT_EQ(figures_.so_far().samples, 120u);
  EXPECT_EQ(figures_.so_far().seconds, 10);
  EXPECT_EQ(figures_.so_far().skipped_steps, 4u);
  EXPECT_EQ(figures_.so_far().figures.loss, 1);
}

// Step 6 is the second step of the second epoch of four; two of eight steps are left.
TEST_F(RunFigures, ProgressTellsHowFastItGoesAndHowLongItWillTake) {
  figures_.start(plan_);
  EXPECT_FALSE(figures_.last_progress());
  for (const std::uint32_t rank : {0U, 1U}) figures_.add(report(1, rank, 10));
  msg::progress now;
  now.head.step = 6;
  now.samples = 30;
  now.seconds = 4;
  now.loss_sum = 5;
  now.loss_samples = 20;
  const run_progress told = figures_.add(now);
  EXPECT_EQ(told.step, 6u);
  EXPECT_EQ(told.total_steps, 8u);
  EXPECT_EQ(told.loss, 0.25);
  EXPECT_EQ(told.samples_per_s, 2 * 30 / 4.0) << "of both trainers";
  EXPECT_EQ(told.seconds_left, (2 + 4) / 6.0 * 2);
  ASSERT_TRUE(figures_.last_progress());
  EXPECT_EQ(figures_.last_progress()->steps_per_s, 2 / 4.0);
}

TEST_F(RunFigures, ARankThatIsNoneIsRefused) {
  figures_.start(plan_);
  EXPECT_THROW(figures_.add(report(1, 2, 1)), std::out_of_range);
}

}  // namespace
}  // namespace troupe::actors::run_figures_test
