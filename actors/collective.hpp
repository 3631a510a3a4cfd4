// How an allreduce group sums its buckets: on the processor (allreduce_group.cpp) or on CUDA devices
// (device_collective.hpp). A group chooses one when it starts.

#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "actors/bucket_window.hpp"
#include "actors/ordered_sum.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// A bucket under way in a group.
struct group_bucket {
  struct participant {
    msg::header head;
    msg::tensor grad;  ///< whole for this process's ranks; for others, the slice summed here
    caf::typed_response_promise<msg::reduced> promise;  ///< of this process's ranks
  };

  ordered_sum sum;
  std::vector<participant> ranks;
  std::uint64_t sequence = 0;  ///< number of this group's collective, from 1
  std::uint64_t launched = 0;  ///< ticks: when the first share came
  std::uint64_t started = 0;   ///< ticks: when the last share came
  std::chrono::steady_clock::time_point begin;
};

/// Belongs to one group's actor.
class collective {
 public:
  virtual ~collective() = default;

  /// Returns what the processes exchange for a bucket of `count` parameters.
  virtual bucket_exchange exchange_of(std::uint64_t count) const = 0;

  /// Returns whether this collective can read the numbers of this process's ranks from where they are.
  virtual bool can_read(const msg::tensor& grad) const = 0;

  /// Called when a rank of this process begins to take part: by then all processes are connected.
  virtual void join() {}

  /// Returns why a share from another process's rank does not fit this collective; none if it fits.
  virtual caf::error check(const msg::bucket_share& share) const = 0;

  /// Takes another process's description of its devices. Returns an error if they do not fit this collective.
  virtual caf::error introduce(const msg::group_devices& theirs) = 0;

  /// Requires: all shares of the bucket are there. Sums it now or later. May finish this bucket and others before it
  /// returns; then nothing is left to do.
  virtual bucket_actions sum(const bucket_id& id, group_bucket& all) = 0;

  /// Ends the group if an operation of this collective takes too long. Called at intervals.
  virtual void look_for_late() {}

  /// What a bucket waits for when every rank's share is there, in words for people.
  virtual const char* awaited() const = 0;
};

}  // namespace troupe::actors
