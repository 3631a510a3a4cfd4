// Checkpoints that are written during training: for all orders of messages drawn from seeds, their files have the bytes
// of checkpoints for which all actors pause.

#include <filesystem>
#include <map>

#include "actors/common/faults.hpp"
#include "model/checkpoint/resume.hpp"
#include "tests/actors/run_stage.hpp"
#include "tests/model/made_checkpoint.hpp"
#include "tests/read_file.hpp"

namespace troupe::actors::checkpoint_beside_test {
namespace {

/// Counts the pieces written after later steps were applied; calls a function at the first piece.
class piece_watch : public fault_injector {
 public:
  piece_watch() { install_faults(this); }
  ~piece_watch() override { install_faults(nullptr); }

  void applying(std::uint32_t rank, std::uint64_t step) override { applied[rank] = step; }
  void writing(std::size_t, std::uint32_t) override {
    for (const auto& [rank, step] : applied) late += step > saved && step < saved + 10 ? 1 : 0;
    if (at_first) std::exchange(at_first, nullptr)();
  }

  std::map<std::uint32_t, std::uint64_t> applied;
  std::uint64_t saved = 10;
  int late = 0;
  std::function<void()> at_first;
};

class CheckpointBeside : public run_stage {
 protected:
  using settings = std::vector<model::setting>;

  /// A skewed data set; each of two servers has a table.
  static settings job(const char* steps, settings more = {}) {
    settings all = {{"data", "synthetic"},   {"tables", "2"},  {"rows", "500"},        {"dim", "4"},
                    {"batch-size", "16"},    {"servers", "2"}, {"trainers", "2"},      {"steps", steps},
                    {"sparse-lr", "0.0625"}, {"seed", "5"},    {"id-skew", "zipf:1.1"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  /// Runs the job with checkpoints; handles messages in an order drawn from `seed` (0: in order of arrival).
  void finish(const settings& what, const std::string& folder, std::uint64_t every, std::uint64_t seed,
              std::uint64_t memory = msg::any_memory) {
    taken_.clear();
    run_checkpoints checkpoints;
    auto opened = model::checkpoint_store::open(folder, nullptr);
    ASSERT_TRUE(opened) << opened.error().message;
    checkpoints.store = std::make_shared<model::checkpoint_store>(std::move(*opened));
    checkpoints.every = every;
    checkpoints.memory = memory;
    run_observer observer;
    observer.on_checkpoint = [this](const checkpoint_summary& one) { taken_.push_back(one); };
    begin(what, observer, std::move(checkpoints));
    seed == 0 ? run() : run_shuffled(seed);
  }

  void expect_done() { EXPECT_TRUE(answer_->value) << protocol::describe(answer_->error); }

  /// Returns the contents of the files of the checkpoint after `step`, by name.
  static std::map<std::string, std::string> files_of(const std::string& folder, std::uint64_t step) {
    std::map<std::string, std::string> files;
    const auto seen = model::inspect_checkpoint(folder, step, model::inspection_depth::bytes);
    if (!seen || seen->found.state != model::checkpoint_state::whole) {
      ADD_FAILURE() << "no whole checkpoint of step " << step;
      return files;
    }
    for (const auto& file : seen->what->manifest.files) files[file.name] = read_file(seen->what->path_of(file.name));
    return files;
  }

  std::vector<checkpoint_summary> taken_;
};

struct run_kind {
  const char* name;
  std::vector<model::setting> more;
  bool is_late = true;  ///< in some of the orders, steps are applied during the writing
};

class CheckpointBesideKinds : public CheckpointBeside, public testing::WithParamInterface<run_kind> {};

TEST_P(CheckpointBesideKinds, HasTheBytesOfOneForWhichAllStandStill) {
  const model::checkpoint_folder still;
  finish(job("10", GetParam().more), still.path(), 0, 0);
  expect_done();
  const auto expected = files_of(still.path(), 10);
  ASSERT_EQ(expected.size(), 3u);
  const model::checkpoint_folder unbroken;
  finish(job("20", GetParam().more), unbroken.path(), 0, 0);
  const std::string digest = answer_->value->weights_digest;
  piece_watch seen;
  for (std::uint64_t seed = 0; seed <= 6; ++seed)
    for (const std::uint64_t memory : {msg::any_memory, std::uint64_t{0}, std::uint64_t{300}}) {
      const model::checkpoint_folder folder;
      finish(job("20", GetParam().more), folder.path(), 10, seed, memory);
      expect_done();
      ASSERT_EQ(taken_.size(), 2u) << "seed " << seed;
      EXPECT_FALSE(taken_[0].problem || taken_[1].problem);
      EXPECT_TRUE(files_of(folder.path(), 10) == expected) << "seed " << seed << ", memory " << memory;
      EXPECT_EQ(answer_->value->weights_digest, digest);
    }
  EXPECT_TRUE(seen.late > 0 || !GetParam().is_late);
}

INSTANTIATE_TEST_SUITE_P(Runs, CheckpointBesideKinds,
                         testing::Values(run_kind{"sgd", {{"sparse-optimizer", "sgd"}}},
                                         run_kind{"adam", {{"sparse-optimizer", "adam"}, {"dense-optimizer", "adam"}}},
                                         run_kind{"rowwise",
                                                  {{"sparse-optimizer", "rowwise-adagrad"}, {"row-dtype", "bf16"}}},
                                         run_kind{"clipped", {{"clip-norm", "0.5"}}, false},
                                         run_kind{"accumulating", {{"accumulate", "5"}}, false}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_F(CheckpointBeside, NobodyStandsStillForTheDisk) {
  const model::checkpoint_folder folder;
  finish(job("20"), folder.path(), 10, 0);
  ASSERT_EQ(taken_.size(), 2u);
  EXPECT_LT(taken_[0].stood_still, taken_[0].seconds);
  EXPECT_GE(taken_[1].stood_still, taken_[1].seconds) << "the last one is waited for";
}

TEST_F(CheckpointBeside, OneThatIsDueWhileAnotherIsWrittenWaitsForIt) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const model::checkpoint_folder folder;
    finish(job("12"), folder.path(), 1, seed);
    expect_done();
    std::vector<std::uint64_t> steps;
    for (const auto& one : taken_) steps.push_back(one.step);
    EXPECT_EQ(steps, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
    EXPECT_EQ(files_of(folder.path(), 12).size(), 3u);
  }
}

TEST_F(CheckpointBeside, AWishToStopInTheMidstOfOneEndsWithAWholeOne) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const model::checkpoint_folder folder;
    piece_watch seen;
    seen.at_first = [this] { caf::anon_send(trainers_[1], msg::stop{}); };
    finish(job("40"), folder.path(), 10, seed);
    expect_done();
    EXPECT_TRUE(answer_->value->stopped);
    ASSERT_EQ(taken_.size(), 2u);
    EXPECT_EQ(taken_[0].step, 10u);
    EXPECT_EQ(taken_[1].step, answer_->value->steps);
    EXPECT_EQ(files_of(folder.path(), 10).size(), 3u);
    EXPECT_EQ(files_of(folder.path(), answer_->value->steps).size(), 3u);
  }
}

TEST_F(CheckpointBeside, AServerThatEndsInTheMidstOfOneLeavesThoseBefore) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const model::checkpoint_folder folder;
    piece_watch seen;
    seen.at_first = [this] {  // a message that ends the server
      caf::anon_send(servers_[1], msg::gradient{msg::header{1, 11}, 99, true, true, {}});
    };
    finish(job("40"), folder.path(), 10, seed);
    EXPECT_TRUE(answer_->error) << "the run has failed";
    EXPECT_EQ(model::checkpoint_steps(folder.path()).value(), (std::vector<std::uint64_t>{0})) << "seed " << seed;
  }
}

TEST_F(CheckpointBeside, OneWhoseFolderCannotBeMadeIsToldAndTrainingGoesOn) {
  const model::checkpoint_folder unbroken;
  finish(job("20"), unbroken.path(), 0, 0);
  const std::string digest = answer_->value->weights_digest;
  for (const std::uint64_t memory : {msg::any_memory, std::uint64_t{0}}) {
    auto folder = std::make_unique<model::checkpoint_folder>();
    piece_watch seen;
    taken_.clear();
    run_checkpoints checkpoints;
    checkpoints.store =
        std::make_shared<model::checkpoint_store>(std::move(*model::checkpoint_store::open(folder->path(), nullptr)));
    checkpoints.every = 10;
    checkpoints.memory = memory;
    run_observer observer;
    observer.on_checkpoint = [this](const checkpoint_summary& one) { taken_.push_back(one); };
    begin(job("20"), observer, std::move(checkpoints));
    while (seen.applied[0] < 5) ASSERT_TRUE(scheduler().try_run_once());
    folder.reset();
    run();
    expect_done();
    ASSERT_EQ(taken_.size(), 2u);
    EXPECT_TRUE(taken_[0].problem && taken_[1].problem);
    EXPECT_EQ(answer_->value->weights_digest, digest);
  }
}

}  // namespace
}  // namespace troupe::actors::checkpoint_beside_test
