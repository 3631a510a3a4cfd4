// Goal: settings that say where and how a run computes, not what, change no bit of its weights, for any job and any
// combination: servers, processes, threads, traces, checkpoints with and without memory, a resume.
// Method: jobs and settings drawn from a seed. All runs of a job must end with the same digest.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/end_to_end/cuda.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::neutral_settings_test {
namespace {

const args whole_run = {"--steps", "12"};
const args half_run = {"--steps", "6"};

/// Draws random options.
class drawing {
 public:
  explicit drawing(std::uint32_t seed) : random_(seed) {}

  /// Adds one of the choices with a probability of `percent`.
  void maybe(args& all, unsigned percent, const std::vector<args>& choices) {
    if (is(percent)) one_of(all, choices);
  }
  void one_of(args& all, const std::vector<args>& choices) {
    const args& chosen = choices[random_() % choices.size()];
    all.insert(all.end(), chosen.begin(), chosen.end());
  }
  bool is(unsigned percent) { return random_() % 100 < percent; }
  std::uint32_t seed() { return static_cast<std::uint32_t>(random_()) % 1000; }

 private:
  std::mt19937 random_;
};

/// Draws a job without its number of steps.
args draw_job(drawing& draw, const std::string& device) {
  constexpr const char* normalised = R"([{"kind": "linear", "out": 16}, {"kind": "batch_norm"}, {"kind": "relu"},
                                         {"kind": "dropout", "rate": 0.3}, {"kind": "linear", "out": 1}])";
  args job = {"--device", device, "--seed", std::to_string(draw.seed())};
  draw.one_of(job,
              {{"--data", "adult"},
               {"--data", "adult", "--batch-size", "33", "--interaction", "dot", "--bottom-hidden", "8"},
               {"--data", "tutorial"},
               {"--data", "synthetic", "--rows", "1000", "--dim", "8", "--tables", "3", "--batch-size", "128"},
               {"--data", "synthetic", "--rows", "5", "--bag", "4", "--id-skew", "zipf:1.1", "--batch-size", "1"}});
  draw.maybe(job, 60, {{"--trainers", "1"}, {"--trainers", "3"}});
  if (std::ranges::find(job, normalised) == job.end())
    draw.maybe(job, 50, {{"--hidden", "none"}, {"--hidden", "32,16"}});
  draw.maybe(job, 50,
             {{"--sparse-optimizer", "sgd"},
              {"--sparse-optimizer", "adam"},
              {"--sparse-optimizer", "lazy-adam"},
              {"--sparse-optimizer", "rowwise-adagrad"}});
  draw.maybe(job, 30, {{"--clip-norm", "0.05"}, {"--nan", "skip"}});
  draw.maybe(job, 30, {{"--accumulate", "2"}, {"--micro-batches", "3"}});
  draw.maybe(job, 30, {{"--row-dtype", "bf16"}, {"--wire-dtype", "f16"}});
  draw.maybe(job, 20, {{"--pipeline", "2"}, {"--tensor-parallel", "2"}});
  return job;
}

/// `folder`: used by this run only.
args draw_settings(drawing& draw, bool on_cards, const std::string& folder) {
  args settings;
  draw.maybe(settings, 50, {{"--servers", "2"}, {"--servers", "3"}});
  draw.maybe(settings, 40, {{"--threads", "1"}, {"--threads", "4"}});
  draw.maybe(settings, 40, {{"--prepare", "0"}, {"--prepare", "2"}});
  draw.maybe(settings, 30, {{"--eval-every", "0"}});
  draw.maybe(settings, 30, {{"--trace", "off"}, {"--trace", "full", "--trace-dir", folder + "/trace"}});
  draw.maybe(settings, 30, {{"--bucket-mib", "1"}, {"--table-split", "columns"}});
  if (on_cards)
    draw.maybe(settings, 40, {{"--server-device", "cpu"}, {"--server-device", "cuda"}, {"--step-graph", "on"}});
  else
    draw.maybe(settings, 30, {{"--processes"}, {"--processes", "--tls"}});
  return settings;
}

/// Options for saving in `folder`.
args draw_checkpoints(drawing& draw, const std::string& folder) {
  args saving = {"--save", folder};
  draw.maybe(saving, 80, {{"--checkpoint-every", "1"}, {"--checkpoint-every", "4"}, {"--checkpoint-seconds", "0.001"}});
  draw.maybe(saving, 70, {{"--checkpoint-memory", "0"}, {"--checkpoint-memory", "1000000"}});
  return saving;
}

/// Trains, and returns the digest; empty if some setting does not go with the job and was refused.
std::string digest_unless_refused(const args& options) {
  SCOPED_TRACE(testing::PrintToString(options));
  const outcome ended = run(with({"train", "--json", "--quiet"}, options));
  EXPECT_TRUE(ended.in_time);
  if (ended.exit_code == 2) return {};
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  return ended.exit_code == 0 ? digest_of(ended) : std::string();
}

/// TROUPE_DRAWN_JOBS: the number of jobs, 40 by default.
void change_no_bit(const std::string& device) {
  const char* wanted = std::getenv("TROUPE_DRAWN_JOBS");
  const int jobs = wanted != nullptr ? std::stoi(wanted) : 40;
  const bool on_cards = device == "cuda";
  int compared = 0;
  int refused = 0;
  const auto compare = [&](const std::string& digest, const std::string& expected, const args& options) {
    ++(digest.empty() ? refused : compared);
    EXPECT_TRUE(digest.empty() || digest == expected) << digest << ": " << testing::PrintToString(options);
  };
  for (int number = 0; number < jobs; ++number) {
    drawing draw(static_cast<std::uint32_t>(number));
    const args job = draw_job(draw, device);
    SCOPED_TRACE("job " + std::to_string(number) + ": " + testing::PrintToString(job));
    const std::string expected = digest_unless_refused(with(job, whole_run));
    for (int i = 0; i < 2 && !expected.empty(); ++i) {
      const model::checkpoint_folder folder;
      args settings = draw_settings(draw, on_cards, folder / "traces");
      if (draw.is(70)) settings = with(settings, draw_checkpoints(draw, folder / "whole"));
      compare(digest_unless_refused(with(with(job, whole_run), settings)), expected, settings);
      if (!draw.is(50)) continue;
      // Interrupted, and resumed with other settings.
      settings = with(draw_settings(draw, on_cards, folder / "half_traces"), draw_checkpoints(draw, folder / "half"));
      if (digest_unless_refused(with(with(job, half_run), settings)).empty()) continue;
      const args on = with(draw_settings(draw, on_cards, folder / "other_traces"), {"--resume", folder / "half"});
      compare(digest_unless_refused(with(with({"--device", device}, whole_run), on)), expected, with(settings, on));
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(compared, std::max(refused, jobs / 2));
  testing::Test::RecordProperty("compared", compared);
  testing::Test::RecordProperty("refused", refused);
}

TEST(NeutralSettings, ChangeNoBit) { change_no_bit("cpu"); }

class NeutralSettingsGpu : public CudaGpu {};

TEST_F(NeutralSettingsGpu, ChangeNoBit) { change_no_bit("cuda"); }

}  // namespace
}  // namespace troupe::end_to_end::neutral_settings_test
