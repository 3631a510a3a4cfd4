#include "tests/simulation/trial.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace troupe::simulation {
namespace {

char words_of_seed[64];
std::size_t length_of_words = 0;

/// Makes the program print the current seed when it aborts, for example by an assertion.
class seed_in_hand {
 public:
  explicit seed_in_hand(std::uint64_t seed) {
    length_of_words = fmt::format_to_n(words_of_seed, sizeof words_of_seed, "in seed {}\n", seed).size;
    before_ = std::signal(SIGABRT, [](int) { (void)!::write(STDERR_FILENO, words_of_seed, length_of_words); });
  }
  ~seed_in_hand() { std::signal(SIGABRT, before_); }
  seed_in_hand(const seed_in_hand&) = delete;
  seed_in_hand& operator=(const seed_in_hand&) = delete;

 private:
  void (*before_)(int) = nullptr;
};

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::string difference_of(const model::epoch_figures& a, const model::epoch_figures& b) {
  const std::pair<std::optional<double>, std::optional<double>> all[] = {{a.loss, b.loss},
                                                                         {a.auc, b.auc},
                                                                         {a.accuracy, b.accuracy},
                                                                         {a.log_loss, b.log_loss},
                                                                         {a.calibration, b.calibration},
                                                                         {a.test_loss, b.test_loss},
                                                                         {a.rmse, b.rmse}};
  for (const auto& [one, other] : all)
    if (one.has_value() != other.has_value() || (one && !same(*one, *other)))
      return fmt::format("a figure is {}, not {}", other.value_or(NAN), one.value_or(NAN));
  return {};
}

/// The losses of an epoch count from the attempt's beginning.
std::string difference_of(const actors::epoch_summary& reference, const actors::epoch_summary& told) {
  if (const auto args = difference_of(reference.figures, told.figures); !args.empty()) return args;
  if (told.steps != reference.steps || told.step != reference.step)
    return fmt::format("it has {} steps and ends at step {}, not {} and {}", told.steps, told.step, reference.steps,
                       reference.step);
  if (told.samples != reference.samples)
    return fmt::format("it has {} samples, not {}", told.samples, reference.samples);
  for (std::size_t rank = 0; rank < reference.losses.size(); ++rank) {
    const auto& whole = reference.losses[rank];
    const auto& part = told.losses.at(rank);
    if (part.size() > whole.size() || !std::equal(part.rbegin(), part.rend(), whole.rbegin(), same))
      return fmt::format("losses of rank {} differ", rank);
  }
  return {};
}

}  // namespace

references::references() {
  for (std::size_t job = 0; job < job_count(); ++job) {
    const scenario what = without_faults(job, job + 1);
    world one(what);
    outcome made = one.run();
    if (!made.told) throw std::runtime_error(fmt::format("job {} without faults: {}", job, made.problem));
    told_.push_back(std::move(*made.told));
    steps_.push_back(made.steps);
  }
}

std::string difference(const reported_run& reference, const reported_run& told) {
  if (told.digest != reference.digest)
    return fmt::format("the weights' digest is {}, not {}", told.digest, reference.digest);
  if (told.steps != reference.steps) return fmt::format("the run has {} steps, not {}", told.steps, reference.steps);
  if (told.samples != reference.samples)
    return fmt::format("the run has {} samples, not {}", told.samples, reference.samples);
  if (const auto args = difference_of(reference.figures, told.figures); !args.empty()) return "at the end " + args;
  for (const actors::epoch_summary& whole : reference.epochs) {
    bool is_reported = false;
    for (const actors::epoch_summary& one : told.epochs) {
      if (one.epoch != whole.epoch) continue;
      is_reported = true;
      if (const auto args = difference_of(whole, one); !args.empty())
        return fmt::format("epoch {}: {}", one.epoch, args);
    }
    if (!is_reported) return fmt::format("epoch {} was never told", whole.epoch);
  }
  return {};
}

trial try_scenario(const references& known, const scenario& what, bool is_logged) {
  const seed_in_hand noted(what.seed);
  world one(what, is_logged);
  trial made{.problem = {}, .run = one.run()};
  made.problem = made.run.told ? difference(known.of(job_of(what.seed)), *made.run.told) : made.run.problem;
  return made;
}

scenario scenario_of(const references& known, std::uint64_t seed, const planted_bugs& planted,
                     const std::optional<std::vector<std::size_t>>& kept) {
  scenario made = draw_scenario(seed, known.steps());
  made.planted = planted;
  if (kept) {
    std::vector<fault_plan> some;
    for (const std::size_t number : *kept)
      if (number < made.faults.size()) some.push_back(made.faults[number]);
    made.faults = std::move(some);
  }
  return made;
}

std::vector<std::size_t> shorten(const references& known, std::uint64_t seed, const planted_bugs& planted) {
  std::vector<std::size_t> kept(scenario_of(known, seed).faults.size());
  std::iota(kept.begin(), kept.end(), std::size_t{0});
  for (bool shorter = true; shorter;) {
    shorter = false;
    for (std::size_t i = 0; i < kept.size() && !shorter; ++i) {
      auto fewer = kept;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (try_scenario(known, scenario_of(known, seed, planted, fewer)).problem.empty()) continue;
      kept = std::move(fewer);
      shorter = true;
    }
  }
  return kept;
}

std::string report(const references& known, std::uint64_t seed, const planted_bugs& planted) {
  const auto kept = shorten(known, seed, planted);
  const scenario what = scenario_of(known, seed, planted, kept);
  std::string text = fmt::format("seed {}: {}\n", seed, try_scenario(known, what).problem);
  for (const fault_plan& one : what.faults) text += fmt::format("  {}\n", describe(one, what.servers));
  text += fmt::format("  again: simulation_test --seed {} --faults {}", seed,
                      kept.empty() ? std::string("none") : fmt::format("{}", fmt::join(kept, ",")));
  if (planted.old_messages) text += " --plant old-messages";
  if (planted.old_rows) text += " --plant old-rows";
  if (planted.sync == forgotten_sync::of_files) text += " --plant no-sync-of-files";
  if (planted.sync == forgotten_sync::of_folders) text += " --plant no-sync-of-folders";
  return text + "\n";
}

}  // namespace troupe::simulation
