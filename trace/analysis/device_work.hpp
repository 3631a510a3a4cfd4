// The work of a run's devices, by their own clocks: for which actors, how often, how long, and how long they were idle.

#pragma once

#include <boost/json/array.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trace/analysis/causality.hpp"

namespace troupe::analysis {

struct device_use {
  /// A device's work of one name for one actor.
  struct work {
    std::uint16_t actor = 0;
    std::uint16_t device = 0;
    trace::range_name what = trace::range_name::none;
    std::uint64_t times = 0;
    trace::nanoseconds median = 0;
    trace::nanoseconds sum = 0;
  };
  /// A device of a host.
  struct device {
    std::string host;
    std::uint16_t number = 0;
    trace::nanoseconds busy = 0;  ///< with any work, for any actor
  };

  std::vector<work> works;      ///< by actor; the largest sum first
  std::vector<device> devices;  ///< by host and number
};

/// Streams of a device work side by side, so sums of work may be more than the time in which it was busy.
device_use find_device_use(const causality& of);

/// Two tables for a terminal, at most `limit` rows of the first; empty if no device did anything. `whole`: the run's
/// time.
std::string device_use_text(const trace::recording& run, const device_use& what, trace::nanoseconds whole,
                            std::size_t limit);
boost::json::array device_work_json(const trace::recording& run, const device_use& what);
boost::json::array devices_json(const device_use& what, trace::nanoseconds whole);

}  // namespace troupe::analysis
