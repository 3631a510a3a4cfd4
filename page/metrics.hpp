// A run's metrics in Prometheus' text format 0.0.4: https://prometheus.io/docs/instrumenting/exposition_formats/.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "page/source.hpp"

namespace troupe::page {

/// Monotonic sums over the events of a run. A ring overwrites old records, so each reading adds the records that are
/// newer than the last reading's. Records that were overwritten between two readings are missing; only the messages of
/// an actor as a whole are exact, from its board.
class totals {
 public:
  void add(const trace::recording& of);

  struct sum {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    trace::nanoseconds latency = 0;
    trace::nanoseconds queued = 0;
  };
  /// Sums by actor number and message type.
  const std::map<std::pair<std::uint16_t, std::uint16_t>, sum>& messages() const { return sums_; }
  /// Time that actors worked, in handlers and in recorded ranges.
  const std::map<std::uint16_t, trace::nanoseconds>& worked() const { return worked_; }
  /// Time (`latency`) and number of the trainers' steps.
  const std::map<std::uint16_t, sum>& steps() const { return steps_; }

 private:
  struct mark {
    trace::nanoseconds counted = -1;  ///< events that ended later are not counted yet
    trace::nanoseconds busy_until = 0;
  };
  std::uint64_t run_ = 0;
  std::map<std::uint16_t, mark> marks_;
  std::map<std::pair<std::uint16_t, std::uint16_t>, sum> sums_;
  std::map<std::uint16_t, trace::nanoseconds> worked_;
  std::map<std::uint16_t, sum> steps_;
};

/// Returns the whole answer to `/metrics`. If no recording could be read, it has only `troupe_up` and
/// `troupe_trace_readable`.
std::string metrics_text(const reading& of, const totals& sums);

}  // namespace troupe::page
