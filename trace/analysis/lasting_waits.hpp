// Finds the waits that two readings of a live run have in common. Its files are read one after the other while their
// processes write, so one reading alone may show a wait that never was, or one that has already ended.

#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "trace/analysis/blocked.hpp"
#include "trace/analysis/wait_for.hpp"

namespace troupe::analysis {

/// What actors have done between two readings.
class progress {
 public:
  progress(const trace::recording& before, const trace::recording& now);

  /// Whether that actor has handled a message, begun or ended work, or reached another step.
  bool has_moved(std::uint16_t actor) const { return moved_.contains(actor); }
  /// How many messages were handled, except queries of the run's status.
  std::uint64_t handled() const { return handled_; }

 private:
  std::set<std::uint16_t> moved_;
  std::uint64_t handled_ = 0;
};

/// Decides how often a live run is read again: until it moves, for half a second at most, and not at all if a process
/// has died or is stopped, which needs no second look.
class second_look {
 public:
  /// Whether to look again, after a wait.
  bool has_more(const blocked_report& found);

 private:
  int looks_ = 0;
};

/// Returns the waits of `now` that existed `before`, on actors that have not moved since. An actor that has parked a
/// request and waits for others may move: the request does not wait for its work.
std::vector<wait_edge> lasting_waits(std::vector<wait_edge> now, const std::vector<wait_edge>& before,
                                     const progress& since);

}  // namespace troupe::analysis
