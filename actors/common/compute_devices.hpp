// The devices that the actors of a run compute on.

#pragma once

#include <caf/spawn_options.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "kernels/device.hpp"

namespace troupe::actors {

/// Where a job computes best, for users who choose `auto`.
struct device_advice {
  bool on_devices = true;   ///< on CUDA devices; else on the processor
  std::string reason = {};  ///< a readable reason; empty: there is no advice
};

/// Which actors compute on which CUDA devices; the others compute on the processor.
struct compute_devices {
  /// The devices' numbers: rank r uses numbers[r modulo their count].
  std::vector<int> numbers;
  bool trainers = false;             ///< trainers compute on them
  bool servers = false;              ///< servers keep their tables on them
  bool elsewhere = false;            ///< in other processes, so that this process does not open them
  bool step_graphs = false;          ///< a trainer's steps are captured as CUDA graphs, where they can be
  bool trainers_by_default = false;  ///< the user has not said where trainers compute, and there are devices
  bool servers_by_default = false;   ///< the user has not said where servers keep their tables: with the trainers
  std::string reason;                ///< why `auto` has chosen so; empty: nothing to report

  /// Applies the advice to actors whose device was chosen by default. Does nothing without advice.
  void follow(const device_advice& advice);

  /// Leaves trainers, and servers whose device was chosen by default, on the processor.
  void stay_on_processor();

  /// Returns a rank's device, opened on first use. Throws `kernels::device_error`.
  kernels::device& of_trainer(std::uint32_t rank) const { return pick(trainers, rank); }
  kernels::device& of_server(std::uint32_t rank) const { return pick(servers, rank); }

  /// Returns the device at an index of `numbers`, opened on first use. Throws `kernels::device_error`.
  kernels::device& at(std::size_t place) const;

 private:
  kernels::device& pick(bool on_them, std::uint32_t rank) const {
    return on_them ? at(rank % numbers.size()) : kernels::host_device();
  }
};

/// Describes where ranks on CUDA devices compute: " on CUDA devices 0, 2".
std::string places_of(const compute_devices& devices, std::span<const std::uint32_t> ranks);

/// Describes in one line which actors compute where, and why if `auto` has chosen; empty if all compute on the
/// processor without a reason.
std::string describe(const compute_devices& devices, std::uint32_t trainers, std::uint32_t servers);

/// The user's choice of devices.
struct device_request {
  enum class kind : std::uint8_t { automatic, cpu, cuda };
  kind trainers = kind::cpu;
  kind servers = kind::automatic;  ///< automatic: same as the trainers
  std::vector<int> numbers;        ///< empty: all
};

/// Looks at the machine without opening a device. Fails with kind input, naming what is missing.
result<compute_devices> choose_devices(const device_request& request);

/// Spawns on the worker threads, or with `on_device` on a separate thread, which may block on a CUDA device. `spawner`:
/// an actor system or one of its actors.
template <class Spawner, class Actor, class... Args>
auto spawn_computing(Spawner& spawner, bool on_device, Actor actor, Args... args) {
  return on_device ? spawner.template spawn<caf::detached>(actor, args...) : spawner.spawn(actor, args...);
}

}  // namespace troupe::actors
