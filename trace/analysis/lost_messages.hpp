// The unfinished parts of a run: messages that did not arrive, allreduces that were not completed, processes and actors
// that ended early.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trace/analysis/causality.hpp"

namespace troupe::analysis {

/// A message that was sent longer ago and has not arrived counts as lost.
constexpr trace::nanoseconds longest_transit_ns = 100'000'000;

/// An index over a recording, which must outlive it. Immutable.
class lost_messages {
 public:
  explicit lost_messages(const causality& index);

  /// Messages to other processes that have not arrived, by time of sending.
  const std::vector<const trace::event*>& never_arrived() const { return never_arrived_; }

  /// Messages that wait for credit, and so count as not sent.
  const std::vector<const trace::event*>& held_back() const { return held_back_; }

  /// The first message of `never_arrived` with these properties; null: none.
  const trace::event* find(std::uint16_t sender, std::uint16_t receiver, std::uint16_t type, std::uint64_t step) const;

  /// The answer to `request` that was sent to another process; null: none.
  const trace::event* answer_sent(std::uint64_t request) const;

  /// The sequence numbers of `sender` that no record, board or open request mentions, ascending. Empty if a filter
  /// or an overwritten ring may be the reason.
  std::vector<std::uint64_t> unaccounted(std::uint16_t sender) const;

  /// Whether the message to `receiver`, which has not arrived, should have arrived by the last known moment of the
  /// receiver's process, whose files may have been read before others'. For a process not seen alive, the end of the
  /// recording counts. False while an actor of that process has been at work since before `sent`.
  bool is_overdue(std::uint16_t receiver, trace::nanoseconds sent) const;

  /// The time from which the recording lacks nothing; nullopt: a filter left records out.
  std::optional<trace::nanoseconds> complete_from() const { return complete_from_; }

 private:
  void account_for(const trace::event& one);

  const causality& index_;
  std::optional<trace::nanoseconds> complete_from_;
  std::vector<const trace::event*> held_back_;
  std::vector<const trace::event*> never_arrived_;
  std::map<std::uint64_t, const trace::event*> answers_;           ///< by request
  std::map<std::uint16_t, std::vector<std::uint64_t>> accounted_;  ///< by sender: sequence numbers
  std::map<std::uint16_t, std::uint64_t> first_complete_;          ///< by sender: the first sequence number to check
};

/// An allreduce that has not been completed.
struct open_collective {
  std::uint16_t group = 0;  ///< the actor
  std::uint64_t sequence = 0;
  std::uint64_t step = 0;
  std::optional<std::uint16_t> bucket;  ///< nullopt: not recorded
  std::set<std::uint16_t> missing;      ///< ranks
  std::size_t launched = 0;             ///< number of ranks that have launched it
  std::uint16_t summed_by = 0;          ///< the group that gathers their shares; 0: each group does
  bool skipped = false;                 ///< a missing rank has launched a later one

  /// The group's number, from 0: each process has one group.
  std::uint32_t communicator() const;
};

/// An index of the allreduces that were launched and not completed. Ranks are those of all trainers, and all others
/// that have launched a collective.
class open_collectives {
 public:
  explicit open_collectives(const causality& index);

  /// The collective that the share in message `launch` belongs to; nullopt if it is complete or not recorded.
  std::optional<open_collective> of(std::uint64_t launch) const;

  /// The group of another process that has the share of `rank` in the same collective, or nullopt.
  std::optional<std::uint16_t> launched_elsewhere(const open_collective& what, std::uint16_t rank) const;

 private:
  struct state {
    std::uint64_t step = 0;
    std::optional<std::uint16_t> bucket;
    std::set<std::uint16_t> ranks;
    std::set<std::uint16_t> own;  ///< of these, those whose trainers sent their shares to this group
    std::uint16_t summed_by = 0;
    bool completed = false;
  };
  bool is_of_part(const state& what, std::uint16_t rank) const;
  std::set<std::uint16_t> launched_at(std::uint16_t group, const state& what) const;
  using key = std::pair<std::uint16_t, std::uint64_t>;  ///< group and sequence number

  std::map<key, state> all_;
  std::map<std::uint64_t, key> by_launch_;
  /// Step, then sequence number: a group numbers collectives as their first shares arrive, so one of a rank that is
  /// ahead may have a lower number than one of the step before.
  using position = std::pair<std::uint64_t, std::uint64_t>;
  std::map<std::pair<std::uint16_t, std::uint16_t>, position> last_;  ///< (group, rank): the last one launched
  std::set<std::uint16_t> ranks_;
  std::uint16_t parts_ = 1;
};

/// The end of a process without a record of it, or of an actor with an error.
struct death {
  std::uint32_t process = 0;
  std::optional<std::uint16_t> actor;  ///< nullopt: the whole process
  trace::nanoseconds when = 0;         ///< an actor's exit, a process's last record
  std::uint16_t code = 0;              ///< the actor's error
};

/// All deaths that the recording shows, by time: the first is the reason for the others. A process counts as dead if
/// its end is not recorded while another process ended later, lives on, or recorded that the link to it went down; or
/// if it alone recorded that it failed. If all processes were killed, none counts as dead. Nor do actors in processes
/// that ended cleanly.
std::vector<death> find_deaths(const trace::recording& run);

/// `server 1 (pid 123)`
std::string name_of(const trace::recording& run, const death& what);

}  // namespace troupe::analysis
