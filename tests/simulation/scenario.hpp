// What is simulated: a job, and the faults of its run. All of it follows from a seed.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/job.hpp"
#include "tests/simulation/sim_disk.hpp"
#include "tests/simulation/sim_link.hpp"

namespace troupe::simulation {

/// A place in the run: 0 is the master's; then servers and trainers, by rank.
using place_number = std::uint32_t;

struct fault_plan {
  enum class kind : std::uint8_t {
    kill,   ///< the process at `place` ends
    cut,    ///< the connections between the processes at `place` and `other`
    stop,   ///< the process at `place` does nothing for `time`, or for `steps` if these are over earlier
    slow,   ///< all connections of the process at `place` are slower by `time`, for ten times as long
    disk,   ///< after `skipped` calls that write, `count` fail, for at most `time`
    power,  ///< all processes end, and what was not synced is lost in part
  };
  kind what = kind::kill;
  /// After so many steps of the simulation.
  std::uint64_t at = 0;
  place_number place = 0;
  place_number other = 0;
  sim_duration time{0};
  std::uint64_t steps = UINT64_MAX;  ///< of the simulation
  std::uint64_t skipped = 0;
  std::uint64_t count = 0;
  /// For what else is drawn.
  std::uint64_t key = 0;
};

/// In words for people.
std::string describe(const fault_plan& one, std::uint32_t servers);

/// Bugs that are planted to see whether the simulation finds them.
struct planted_bugs {
  bool old_messages = false;  ///< a server takes messages of an attempt that is over
  bool old_rows = false;      ///< a lookup is answered from the table of an attempt that is over
  forgotten_sync sync = forgotten_sync::none;
};

struct scenario {
  std::uint64_t seed = 0;
  std::vector<model::setting> job;
  std::uint32_t servers = 0;
  std::uint32_t trainers = 0;
  std::uint64_t checkpoint_every = 0;
  network_conditions network = {};
  /// New processes take the places of lost ones. Else those that are left host their ranks too, while there are any.
  bool fills_places = true;
  std::chrono::milliseconds rejoin_timeout{60'000};
  std::vector<fault_plan> faults = {};
  planted_bugs planted = {};
};

/// The jobs, of which a seed has one.
std::size_t job_count();
/// Returns the scenario of job number `job` without faults.
scenario without_faults(std::size_t job, std::uint64_t seed);
/// Draws a scenario. `steps_of`: the steps of the simulation that a job takes without faults.
scenario draw_scenario(std::uint64_t seed, const std::vector<std::uint64_t>& steps_of);
/// Returns the job's number that a seed has.
std::size_t job_of(std::uint64_t seed);

}  // namespace troupe::simulation
