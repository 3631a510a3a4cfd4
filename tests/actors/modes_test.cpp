// Whole runs in the modes that change how gradients are applied: accumulation, clipping, staleness, skipping of NaN.

#include <cmath>

#include "tests/actors/run_stage.hpp"
#include "tests/actors/slow_road.hpp"

namespace troupe::actors::modes_test {
namespace {

using settings = std::vector<model::setting>;

class Modes : public run_stage {
 protected:
  /// A short Adult run with plain SGD on both sides; `more` overrides its settings.
  static settings adult(const settings& more) {
    settings all = {{"dense-optimizer", "sgd"}, {"sparse-optimizer", "sgd"}, {"dense-lr", "0.1"}, {"sparse-lr", "0.5"},
                    {"eval-every", "0"},        {"batch-size", "64"},        {"steps", "24"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  /// Keeps the rows in memory between runs.
  static void SetUpTestSuite() { rows_ = model::open_dataset(*model::parse_job({})).value(); }
  static void TearDownTestSuite() { rows_.reset(); }

  msg::run_result result_of(const settings& what, std::uint64_t order = 0) {
    begin(what);
    run_shuffled(order);
    EXPECT_TRUE(answer_->value) << protocol::describe(answer_->error);
    return answer_->value.value_or(msg::run_result{});
  }

  /// Returns the final dense weights.
  std::vector<float> weights_of(const settings& what) {
    return_weights_ = true;
    const msg::run_result result = result_of(what);
    const auto dense = result.dense.as<float>();
    return {dense.begin(), dense.end()};
  }

 private:
  static inline std::shared_ptr<const model::dataset> rows_;
};

void expect_near(const std::vector<float>& a, const std::vector<float>& b, double limit) {
  ASSERT_EQ(a.size(), b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]));
  EXPECT_LE(worst, limit);
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(sum);
}

// A rank's four batches of 32 are the samples of one batch of 128, so the mean gradient is the same.
TEST_F(Modes, AccumulatingSmallBatchesIsLikeOneBigBatch) {
  const auto big = weights_of(adult({{"batch-size", "128"}, {"steps", "6"}}));
  const auto small = weights_of(adult({{"batch-size", "32"}, {"steps", "24"}, {"accumulate", "4"}}));
  expect_near(small, big, 2e-6);
  EXPECT_GT(distance(big, weights_of(adult({{"batch-size", "32"}, {"steps", "6"}}))), 1e-3) << "else it shows nothing";
}

TEST_F(Modes, BitsDependNeitherOnServersNorOnTheOrderOfMessages) {
  const std::vector<settings> cases = {{{"accumulate", "5"}},
                                       {{"clip-norm", "0.05"}},
                                       {{"clip-norm", "0.05"}, {"accumulate", "3"}, {"sparse-reduce", "sum"}},
                                       {{"nan", "skip"}, {"clip-norm", "0.2"}, {"sparse-optimizer", "lazy-adam"}},
                                       {{"row-dtype", "bf16"}, {"sparse-optimizer", "rowwise-adagrad"}},
                                       {{"wire-dtype", "f16"}},
                                       {{"wire-dtype", "bf16"}, {"clip-norm", "0.05"}, {"accumulate", "3"}},
                                       {{"wire-dtype", "f16"}, {"row-dtype", "bf16"}, {"nan", "skip"}},
                                       {{"interaction", "dot"}, {"lr-schedule", "warmup:5+cosine:19"}},
                                       // Steps so long that part of each is deferred.
                                       {{"batch-size", "128"}, {"hidden", "256,64"}},
                                       {{"batch-size", "128"}, {"hidden", "256,64"}, {"clip-norm", "0.05"}},
                                       {{"batch-size", "128"}, {"hidden", "256,64"}, {"accumulate", "5"}}};
  for (const settings& one : cases) {
    std::string digest;
    for (const char* servers : {"1", "2", "5"}) {
      for (std::uint64_t order = 0; order < 3; ++order) {
        settings what = adult(one);
        what.emplace_back("servers", servers);
        what.emplace_back("trainers", "3");
        const std::string found = result_of(what, order).weights_digest;
        if (digest.empty()) digest = found;
        EXPECT_EQ(found, digest) << one.front().first << ", " << servers << " servers, order " << order;
      }
    }
  }
}

// After a single step of SGD no curvature matters: the weights have moved by lr * clipped norm.
TEST_F(Modes, ClippingBoundsHowFarAStepGoes) {
  const auto start = weights_of(adult({{"steps", "1"}, {"dense-lr", "0"}, {"sparse-lr", "0"}}));
  const auto free = weights_of(adult({{"steps", "1"}}));
  const auto clipped = weights_of(adult({{"steps", "1"}, {"clip-norm", "0.01"}}));
  const auto loose = weights_of(adult({{"steps", "1"}, {"clip-norm", "100"}}));
  EXPECT_EQ(loose, free) << "a norm below the limit is left alone";
  const double dense_norm = distance(free, start) / 0.1;
  EXPECT_GT(dense_norm, 0.01);
  // The dense part of a gradient whose norm is clipped to 0.01: it keeps its direction, so it shrinks by 0.01 / the
  // whole norm.
  const double factor = distance(clipped, start) / distance(free, start);
  EXPECT_LT(distance(clipped, start), 0.1 * 0.01);
  for (std::size_t i = 0; i < start.size(); ++i)
    EXPECT_NEAR(clipped[i] - start[i], factor * (static_cast<double>(free[i]) - start[i]), 1e-7) << i;
}

TEST_F(Modes, StalenessIsBoundedAndCounted) {
  for (std::uint64_t order = 0; order < 5; ++order) {
    const msg::run_result sync = result_of(adult({{"trainers", "3"}}), order);
    EXPECT_EQ(sync.staleness_max, 0u);
    EXPECT_EQ(sync.staleness_mean, 0.0);
    for (const std::uint32_t bound : {1, 2, 5}) {
      const std::string consistency = "ssp:" + std::to_string(bound);
      const msg::run_result bounded = result_of(adult({{"trainers", "3"}, {"consistency", consistency}}), order);
      EXPECT_EQ(bounded.staleness_max, bound) << "as many lookups are ahead, and no more steps are lacking";
      EXPECT_GT(bounded.staleness_mean, bound * 0.5);
    }
    const msg::run_result free =
        result_of(adult({{"trainers", "3"}, {"servers", "2"}, {"consistency", "async"}}), order);
    EXPECT_GE(free.staleness_max, 1u);
    EXPECT_EQ(free.steps, 24u);
  }
}

TEST_F(Modes, SspOfNoStepsIsSync) {
  EXPECT_EQ(result_of(adult({{"consistency", "ssp:0"}})).weights_digest, result_of(adult({})).weights_digest);
}

// The learning rate is so high that nearly every step overflows; those are skipped, and the weights stay finite.
TEST_F(Modes, StepsWithNanAreLeftOutOnAllRanks) {
  const settings wild = {{"data", "tutorial"}, {"steps", "40"}, {"dense-lr", "1000000"}, {"sparse-lr", "1000000"}};
  std::string digest;
  for (const char* servers : {"1", "3"}) {
    settings what = wild;
    what.emplace_back("nan", "skip");
    what.emplace_back("servers", servers);
    const msg::run_result skipped = result_of(what, 1);
    EXPECT_GT(skipped.skipped_steps, 0u);
    EXPECT_LT(skipped.skipped_steps, 40u);
    EXPECT_EQ(skipped.steps, 40u);
    EXPECT_FALSE(skipped.weights_digest.empty()) << "weights are finite: the digest refuses others";
    if (digest.empty()) digest = skipped.weights_digest;
    EXPECT_EQ(skipped.weights_digest, digest) << servers << " servers";
  }
  settings none = adult({{"nan", "skip"}});
  EXPECT_EQ(result_of(none).weights_digest, result_of(adult({})).weights_digest) << "without one, nothing changes";
  EXPECT_EQ(result_of(none).skipped_steps, 0u);
}

// Steps 5 and 6 form the last optimizer step, which is short. The test rows wait for it, even if it is late.
TEST_F(Modes, TestRowsSeeAShortLastOptimizerStep) {
  const settings what = {{"data", "synthetic"}, {"rows", "100"},    {"trainers", "2"},   {"accumulate", "4"},
                         {"steps", "6"},        {"sparse-lr", "5"}, {"batch-size", "64"}};
  const msg::run_result prompt = result_of(what);
  for (const std::uint64_t late_from : {5, 6}) {
    slow_road road{1, late_from, {}, false, {}};
    relay_ = [this, &road](const msg::parameter_server_actor& server) {
      return spawn([&road, server](msg::parameter_server_actor::pointer self) { return road.behavior(self, server); });
    };
    begin(what);
    run();
    EXPECT_TRUE(answer_->pending());
    ASSERT_EQ(road.kept.size(), 7 - late_from);
    for (msg::gradient& late : road.kept) caf::anon_send(servers_[0], std::move(late));
    run();
    ASSERT_TRUE(answer_->value) << protocol::describe(answer_->error);
    EXPECT_EQ(answer_->value->weights_digest, prompt.weights_digest);
    EXPECT_EQ(answer_->value->log_loss, prompt.log_loss);
  }
}

}  // namespace
}  // namespace troupe::actors::modes_test
