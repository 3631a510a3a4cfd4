// The scenario of a simulation: a job, and the faults of its run, all derived from a seed.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/job.hpp"
#include "tests/simulation/sim_disk.hpp"
#include "tests/simulation/sim_link.hpp"

namespace troupe::simulation {

/// A place in the run: 0 is the master's; then come servers and trainers, by rank.
using place_number = std::uint32_t;

struct fault_plan {
  enum class kind : std::uint8_t {
    kill,   ///< the process at `place` ends
    cut,    ///< the connections between the processes at `place` and `other`
    stop,   ///< the process at `place` does nothing for `time`, or for `steps` if these end earlier
    slow,   ///< all connections of the process at `place` are slower by `time`, for ten times that time
    disk,   ///< after `skipped` writing calls, `count` calls fail, for at most `time`
    power,  ///< all processes end, and unsynced data are partly lost
  };
  kind what = kind::kill;
  /// The simulation step of the fault.
  std::uint64_t at = 0;
  place_number place = 0;
  place_number other = 0;
  sim_duration time{0};
  std::uint64_t steps = UINT64_MAX;  ///< simulation steps
  std::uint64_t skipped = 0;
  std::uint64_t count = 0;
  /// Seed for further draws.
  std::uint64_t key = 0;
};

/// Describes a fault in words.
std::string describe(const fault_plan& one, std::uint32_t servers);

/// Bugs planted to check that the simulation finds them.
struct planted_bugs {
  bool old_messages = false;  ///< a server accepts messages of a finished attempt
  bool old_rows = false;      ///< a finished attempt's table answers a lookup
  forgotten_sync sync = forgotten_sync::none;
};

struct scenario {
  std::uint64_t seed = 0;
  std::vector<model::setting> job;
  std::uint32_t servers = 0;
  std::uint32_t trainers = 0;
  std::uint64_t checkpoint_every = 0;
  network_conditions network = {};
  /// Whether new processes replace lost ones; if not, the remaining processes, if any, also host their ranks.
  bool fills_places = true;
  std::chrono::milliseconds rejoin_timeout{60'000};
  std::vector<fault_plan> faults = {};
  planted_bugs planted = {};
};

/// The number of jobs; each seed uses one.
std::size_t job_count();
/// Returns the scenario of job number `job` without faults.
scenario without_faults(std::size_t job, std::uint64_t seed);
/// Draws a scenario. `steps_of`: the simulation steps that each job needs without faults.
scenario draw_scenario(std::uint64_t seed, const std::vector<std::uint64_t>& steps_of);
/// Returns the number of the job that a seed uses.
std::size_t job_of(std::uint64_t seed);

}  // namespace troupe::simulation
