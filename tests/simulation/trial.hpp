// Tries seeds: simulates the run of each, compares what it tells with the run without faults, and shortens the list of
// faults of one that fails.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/world.hpp"

namespace troupe::simulation {

/// The runs without faults, of each job.
class references {
 public:
  /// Simulates them.
  references();

  const told_run& of(std::size_t job) const { return told_.at(job); }
  /// The steps of the simulation that each takes.
  const std::vector<std::uint64_t>& steps() const { return steps_; }

 private:
  std::vector<told_run> told_;
  std::vector<std::uint64_t> steps_;
};

/// Returns what differs from the run without faults; empty: nothing that matters.
std::string difference(const told_run& reference, const told_run& told);

struct trial {
  std::string problem;  ///< empty: none
  outcome run;
};

/// Tries a scenario.
trial try_scenario(const references& known, const scenario& what, bool tells = false);

/// The scenario of a seed; `kept`: the numbers of the faults that remain, null: all.
scenario scenario_of(const references& known, std::uint64_t seed, const planted_bugs& planted = {},
                     const std::optional<std::vector<std::size_t>>& kept = {});

/// Returns the numbers of the fewest faults with which the seed still fails: of those that are left none can be
/// dropped.
std::vector<std::size_t> shorten(const references& known, std::uint64_t seed, const planted_bugs& planted);

/// Returns what to tell of a seed that fails: the problem, the fewest faults, and the command that repeats it.
std::string report(const references& known, std::uint64_t seed, const planted_bugs& planted);

}  // namespace troupe::simulation
