// The devices that the actors of a run compute on.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "kernels/device.hpp"

namespace troupe::actors {

/// Who computes on which CUDA device; the others on the processor.
struct compute_devices {
  /// The devices' numbers: a rank has the one at its place, counted round.
  std::vector<int> numbers;
  bool trainers = false;    ///< trainers compute on them
  bool servers = false;     ///< servers keep their tables on them
  bool elsewhere = false;   ///< in other processes, so that this one does not open them
  bool by_default = false;  ///< nobody has asked for CUDA
  std::string unusable;     ///< nobody has asked for CUDA, and there may be devices, but this stands against them

  /// A rank's device, opened when it is first asked for. Throw `kernels::device_error`.
  kernels::device& of_trainer(std::uint32_t rank) const { return pick(trainers, rank); }
  kernels::device& of_server(std::uint32_t rank) const { return pick(servers, rank); }

  /// The device at a place of `numbers`, likewise.
  kernels::device& at(std::size_t place) const;

 private:
  kernels::device& pick(bool on_them, std::uint32_t rank) const {
    return on_them ? at(rank % numbers.size()) : kernels::host_device();
  }
};

/// Where ranks are that compute on CUDA devices, for people: " on CUDA devices 0, 2".
std::string places_of(const compute_devices& devices, std::span<const std::uint32_t> ranks);

/// Who computes on what, for people: a line; empty if all do on the processor.
std::string describe(const compute_devices& devices, std::uint32_t trainers, std::uint32_t servers);

/// What a user says of devices.
struct device_request {
  enum class kind : std::uint8_t { automatic, cpu, cuda };
  kind trainers = kind::cpu;
  kind servers = kind::automatic;  ///< automatic: as the trainers
  std::vector<int> numbers;        ///< empty: all
};

/// Looks at the machine, and opens no device. Faults, of kind input: what is missing.
result<compute_devices> choose_devices(const device_request& wish);

}  // namespace troupe::actors
