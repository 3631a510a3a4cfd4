// Tries seeds: simulates each seed's run, compares its reports with the undisturbed run, and reduces the fault list of
// a failing seed.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/world.hpp"

namespace troupe::simulation {

/// The undisturbed runs of all jobs.
class references {
 public:
  /// Simulates them.
  references();

  const reported_run& of(std::size_t job) const { return told_.at(job); }
  /// The number of simulation steps of each.
  const std::vector<std::uint64_t>& steps() const { return steps_; }

 private:
  std::vector<reported_run> told_;
  std::vector<std::uint64_t> steps_;
};

/// Returns how a run differs from the undisturbed one; empty if nothing important differs.
std::string difference(const reported_run& reference, const reported_run& told);

struct trial {
  std::string problem;  ///< empty: success
  outcome run;
};

/// Tries a scenario.
trial try_scenario(const references& known, const scenario& what, bool is_logged = false);

/// The scenario of a seed; `kept`: the indices of the faults to keep, null: all.
scenario scenario_of(const references& known, std::uint64_t seed, const planted_bugs& planted = {},
                     const std::optional<std::vector<std::size_t>>& kept = {});

/// Returns the indices of a minimal set of faults with which the seed still fails: no remaining fault can be dropped.
std::vector<std::size_t> shorten(const references& known, std::uint64_t seed, const planted_bugs& planted);

/// Returns the report of a failing seed: the problem, the minimal faults, and the command that repeats it.
std::string report(const references& known, std::uint64_t seed, const planted_bugs& planted);

}  // namespace troupe::simulation
