// What a run did not finish: messages that did not arrive, allreduces that were not completed, processes and actors
// that ended early.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/causality.hpp"

namespace troupe::analysis {

/// A link may need so long to carry a message; one that is older and has not come is lost.
constexpr trace::nanoseconds longest_transit_ns = 100'000'000;

/// An index over a recording, which must outlive it. Immutable.
class lost_messages {
 public:
  explicit lost_messages(const causality& index);

  /// Messages to other processes that have not arrived, by when they were sent.
  const std::vector<const trace::event*>& never_arrived() const { return never_arrived_; }

  /// Messages that wait for credit; they count as not sent.
  const std::vector<const trace::event*>& held_back() const { return held_back_; }

  /// One of `never_arrived`; null: none.
  const trace::event* find(std::uint16_t sender, std::uint16_t receiver, std::uint16_t type, std::uint64_t step) const;

  /// The answer to `request` that has been sent to another process; null: none.
  const trace::event* answer_sent(std::uint64_t request) const;

  /// Of the numbers that `sender` has given its messages, those of which no record, no board and no open request tells
  /// anything: ascending. None where a filter or an overwritten ring may be why.
  std::vector<std::uint64_t> unaccounted(std::uint16_t sender) const;

  /// From when on nothing is missing from the recording; nothing: a filter left things out.
  std::optional<trace::nanoseconds> complete_from() const { return complete_from_; }

 private:
  void account_for(const trace::event& one);
  void find_held_back();

  const causality& index_;
  std::optional<trace::nanoseconds> complete_from_;
  std::vector<const trace::event*> held_back_;
  std::vector<const trace::event*> never_arrived_;
  std::map<std::uint64_t, const trace::event*> answers_;           ///< by request
  std::map<std::uint16_t, std::vector<std::uint64_t>> accounted_;  ///< by sender: sequence numbers
  std::map<std::uint16_t, std::uint64_t> first_complete_;          ///< by sender: the number to begin at
};

/// An allreduce that has not been completed.
struct open_collective {
  std::uint16_t group = 0;  ///< whose
  std::uint64_t sequence = 0;
  std::uint64_t step = 0;
  std::optional<std::uint16_t> bucket;  ///< nothing: not recorded
  std::set<std::uint16_t> missing;      ///< ranks
  bool skipped = false;                 ///< a missing rank has launched a later one

  /// Groups count from 0, one a process.
  std::uint32_t communicator() const;
};

/// An index over a recording. Ranks are those of all trainers, and all that have ever launched anything.
class open_collectives {
 public:
  explicit open_collectives(const causality& index);

  /// The collective that the share in message `launch` belongs to; nothing if it is complete or not recorded.
  std::optional<open_collective> of(std::uint64_t launch) const;

  /// The group of another process to which `rank` has given its share of the same collective.
  std::optional<std::uint16_t> launched_elsewhere(const open_collective& what, std::uint16_t rank) const;

 private:
  struct state {
    std::uint64_t step = 0;
    std::optional<std::uint16_t> bucket;
    std::set<std::uint16_t> ranks;
    std::set<std::uint16_t> own;  ///< of them, those whose trainers gave their shares to this very group
    bool completed = false;
  };
  using key = std::pair<std::uint16_t, std::uint64_t>;  ///< group and sequence number

  std::map<key, state> all_;
  std::map<std::uint64_t, key> by_launch_;
  /// Step and sequence number. A group counts collectives as it meets them: that of a rank which has gone on may come
  /// before that of one which is still in the step before.
  using place = std::pair<std::uint64_t, std::uint64_t>;
  std::map<std::pair<std::uint16_t, std::uint16_t>, place> last_;  ///< (group, rank): the last it launched
  std::set<std::uint16_t> ranks_;
};

/// The end of a process that said nothing of it, or of an actor that ended by an error.
struct death {
  std::uint32_t process = 0;
  std::optional<std::uint16_t> actor;  ///< nothing: the process with all in it
  trace::nanoseconds when = 0;         ///< an actor's exit, a process's last record
  std::uint16_t code = 0;              ///< of an actor's error
};

/// All that the recording shows, the first one first: it is why the later ones died, if these are of one run. A process
/// counts as dead if it has not said how it ended while others have, later, or live on, or said that the link to it is
/// down; or if it alone says that it failed. Where all processes were killed nobody died first, and what happened in a
/// process that ended cleanly is no death.
std::vector<death> find_deaths(const trace::recording& run);

/// `server 1 (pid 123)`
std::string name_of(const trace::recording& run, const death& what);

}  // namespace troupe::analysis
