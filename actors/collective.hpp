// How an allreduce group adds up its buckets: on the processor (allreduce_group.cpp) or on CUDA devices
// (device_collective.hpp). A group chooses one when it starts.

#pragma once

#include <caf/error.hpp>
#include <caf/typed_response_promise.hpp>
#include <chrono>
#include <cstdint>
#include <vector>

#include "actors/bucket_window.hpp"
#include "actors/ordered_sum.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// A bucket that is under way in a group.
struct group_bucket {
  struct participant {
    msg::header head;
    msg::tensor grad;  ///< whole for this process's ranks, the slice that is summed here for others
    caf::typed_response_promise<msg::reduced> promise;  ///< of this process's ranks
  };

  ordered_sum sum;
  std::vector<participant> ranks;
  std::uint64_t sequence = 0;  ///< among the collectives of this group, from 1
  std::uint64_t launched = 0;  ///< ticks: the first share came
  std::uint64_t started = 0;   ///< ticks: the last share came
  std::chrono::steady_clock::time_point begin;
};

/// Belongs to one group's actor.
class collective {
 public:
  virtual ~collective() = default;

  /// What the processes send each other of a bucket of `count` parameters.
  virtual bucket_exchange exchange_of(std::uint64_t count) const = 0;

  /// Whether the numbers of this process's ranks are where this collective reads them.
  virtual bool can_read(const msg::tensor& grad) const = 0;

  /// A rank of this process begins to take part: all processes are connected.
  virtual void join() {}

  /// Why the share of another process's rank does not go with this collective; none if it does.
  virtual caf::error check(const msg::bucket_share& share) const = 0;

  /// What another process tells of its devices. An error if that does not go with this collective.
  virtual caf::error introduce(const msg::group_devices& theirs) = 0;

  /// Sums a bucket of which all shares are there, now or later. May finish this bucket, and others, before it returns;
  /// then nothing is left to do.
  virtual bucket_actions sum(const bucket_id& id, group_bucket& all) = 0;

  /// Ends the group if something that this collective has begun takes too long. Called every now and then.
  virtual void look_for_late() {}

  /// What a bucket waits for when every rank's share is there, for people.
  virtual const char* awaited() const = 0;
};

}  // namespace troupe::actors
