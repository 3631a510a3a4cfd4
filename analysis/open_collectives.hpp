// The allreduces that have been launched and not completed, and the ranks that they lack.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "analysis/causality.hpp"

namespace troupe::analysis {

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

}  // namespace troupe::analysis
