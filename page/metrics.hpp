// What a run did, as Prometheus reads it: https://prometheus.io/docs/instrumenting/exposition_formats/, text, 0.0.4.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "page/source.hpp"

namespace troupe::page {

/// Sums that never go back. A ring forgets old records, so each reading adds those that are newer than the last one:
/// what came and was overwritten in between is missing, but for the messages of an actor as a whole, which its board
/// counts.
class totals {
 public:
  void add(const trace::recording& of);

  struct sum {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    trace::nanoseconds latency = 0;
    trace::nanoseconds queued = 0;
  };
  /// By numbers of actor and type.
  const std::map<std::pair<std::uint16_t, std::uint16_t>, sum>& messages() const { return sums_; }
  /// Time that actors worked, in handlers and turns of their own.
  const std::map<std::uint16_t, trace::nanoseconds>& worked() const { return worked_; }
  /// Time (`latency`) and number of trainers' steps.
  const std::map<std::uint16_t, sum>& steps() const { return steps_; }

 private:
  struct mark {
    trace::nanoseconds counted = -1;  ///< events that ended later are new
    trace::nanoseconds busy_until = 0;
  };
  std::uint64_t run_ = 0;
  std::map<std::uint16_t, mark> marks_;
  std::map<std::pair<std::uint16_t, std::uint16_t>, sum> sums_;
  std::map<std::uint16_t, trace::nanoseconds> worked_;
  std::map<std::uint16_t, sum> steps_;
};

/// The whole answer to `/metrics`. What it has of a run that cannot be read is `troupe_up 0`.
std::string metrics_text(const reading& of, const totals& sums);

}  // namespace troupe::page
