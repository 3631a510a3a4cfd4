// The allreduce group of one process: it collects each rank's share of a bucket and answers its own ranks with the mean
// over all batches, summed in rank order, whichever processes the ranks are in.
//
// The actor checks messages, enforces timeouts, records and answers. ordered_sum.hpp sums a bucket, assigns its slices
// and keeps its state; the mean is the sum times 1 / batches. The shares of trainers on CUDA devices are summed on the
// devices (device_collective.hpp).

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/collective/bucket_window.hpp"
#include "actors/collective/ordered_sum.hpp"
#include "actors/common/actor_name.hpp"
#include "actors/common/actor_trace.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// The process of each rank of a group, and the other processes' groups.
struct group_layout {
  std::vector<std::uint32_t> process_of_rank;
  /// The groups of the other processes, by process; null for this process. Empty: there is only one process.
  std::vector<msg::allreduce_actor> groups;
  std::uint32_t me = 0;
  /// How long a bucket waits for a missing rank; 0: no timeout.
  std::chrono::milliseconds timeout{0};
  /// The sender of each other process's messages, by process. Empty: senders are not checked.
  std::vector<caf::actor_addr> senders{};
  /// The actor number of each process's group, by process. Empty: only one process, with number `group_number`.
  std::vector<std::uint32_t> numbers{};
  /// Which part of their replicas the ranks have, and the number of parts.
  std::uint32_t part = 0;
  std::uint32_t parts = 1;

  /// All `trainers` ranks in one process.
  static group_layout one_process(std::uint32_t trainers, std::uint32_t part = 0, std::uint32_t parts = 1) {
    group_layout made{std::vector<std::uint32_t>(trainers, 0), {}, 0, {}};
    if (part > 0) made.numbers = {group_sender(part)};
    made.part = part;
    made.parts = parts;
    return made;
  }
  /// The actor number of the group.
  std::uint32_t number() const { return numbers.empty() ? group_number : numbers[me]; }
};

/// A bucket under way in a group.
struct group_bucket {
  struct participant {
    msg::header head;
    msg::tensor grad;  ///< whole for this process's ranks; for others, the slice summed here
    caf::typed_response_promise<msg::reduced> promise;  ///< for this process's ranks
  };

  /// The memory of the mean. Allocated only with its first part: until then, the count may be a false claim of a
  /// process.
  float* buffer() {
    if (!mean) mean = std::make_shared_for_overwrite<float[]>(sum.count());
    return mean.get();
  }
  /// Part of the mean, as a message.
  msg::tensor part(const sum_slice& which) const {
    return {dtype::f32, which.size, 1, msg::blob(mean, mean.get() + which.first, which.size * sizeof(float))};
  }

  ordered_sum sum;
  std::vector<participant> ranks;
  std::shared_ptr<float[]> mean;
  bool stop = false;           ///< a rank votes to end the run, as far as known here
  bool save = false;           ///< a rank votes for a checkpoint, as far as known here
  std::uint64_t sequence = 0;  ///< number of this group's collective, from 1
  std::uint64_t launched = 0;  ///< ticks: when the first share came
  std::uint64_t started = 0;   ///< ticks: when the last share came
  std::chrono::steady_clock::time_point begin;
};

/// How a group sums its buckets: on the processor (allreduce_group.cpp) or on CUDA devices (device_collective.hpp). The
/// group chooses one when it starts. Belongs to the group's actor.
class collective {
 public:
  virtual ~collective() = default;

  /// Returns what the processes exchange for a bucket of `count` parameters.
  virtual share_exchange exchange_of(std::uint64_t count) const = 0;

  /// Returns whether this collective can read the share of a rank of this process in the memory where it is.
  virtual bool can_read(const msg::tensor& grad) const = 0;

  /// Called when a rank of this process begins to take part: all processes are then connected.
  virtual void join() {}

  /// Returns why a share from another process's rank does not fit this collective; none if it fits.
  virtual caf::error check(const msg::bucket_share& share) const = 0;

  /// Reads another process's description of its devices. Returns an error if they do not fit this collective.
  virtual caf::error introduce(const msg::group_devices& theirs) = 0;

  /// Sums the bucket and returns true; or returns false: the collective then calls `finish` itself, perhaps for several
  /// buckets, and perhaps before this call returns. Requires: all shares of the bucket are there.
  virtual bool sum(const bucket_id& id, group_bucket& all) = 0;

  /// Ends the group if an operation of this collective takes too long or has failed. Called at intervals.
  virtual void look_for_late() {}

  /// Returns how long a failed operation may go unnoticed.
  virtual std::chrono::milliseconds look_interval() const { return std::chrono::milliseconds::max(); }

  /// Describes what a bucket waits for when every rank's share is there.
  virtual const char* awaited() const = 0;
};

class allreduce_group_state {
 public:
  using pointer = msg::allreduce_actor::stateful_pointer<allreduce_group_state>;

  explicit allreduce_group_state(pointer self) : self_(self) {}
  allreduce_group_state(const allreduce_group_state&) = delete;

  std::string name = "allreduce";
  /// The newest step of any bucket received.
  std::uint64_t step = 0;
  actor_trace trace;

  void start(std::uint64_t run, group_layout layout);
  caf::result<msg::reduced> handle(msg::reduce& share);
  caf::result<void> handle(msg::bucket_share& share);
  caf::result<void> handle(msg::bucket_sum& part);
  caf::result<void> handle(const msg::group_devices& theirs);
  caf::result<msg::actor_status> handle(const msg::actor_query& query);

  // -- called by collectives ----------------------------------------------------------------

  pointer self() const { return self_; }
  const rank_layout& ranks() const { return ranks_; }
  const std::vector<msg::allreduce_actor>& groups() const { return groups_; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  /// The clock for deadlines: that of the actor system.
  std::chrono::steady_clock::time_point now() const { return self_->clock().now(); }
  /// A bucket under way.
  group_bucket& bucket(const bucket_id& id);
  /// Answers this process's ranks, each with the mean that `mean_of` returns for it, and closes the bucket.
  void finish(const bucket_id& id, group_bucket& all, const auto& mean_of) {
    for (std::uint32_t rank = 0; rank < ranks_.ranks(); ++rank) {
      if (!ranks_.is_local(rank)) continue;
      group_bucket::participant& mine = all.ranks[rank];
      mine.promise.deliver(
          msg::reduced{trace.next(id.step, msg::id_of(mine.head)), id.bucket, all.stop, mean_of(rank), all.save});
    }
    close(id, all);
  }
  /// Ends this group, and with it the run.
  caf::result<void> refuse(std::uint64_t at_step, const caf::error& cause);

 private:
  caf::error check(const msg::header& head, std::uint32_t rank, std::uint32_t bucket, bool local) const;
  std::uint32_t number_of(std::uint32_t process) const { return numbers_.empty() ? group_number : numbers_[process]; }
  /// The rank within the run of a rank of this group.
  std::uint32_t member_of(std::uint32_t rank) const { return rank * parts_ + part_; }
  bool may_come_from(std::uint32_t process) const;
  std::optional<std::uint32_t> process_of_sender() const;
  group_bucket& find_or_open(const bucket_id& id, std::uint64_t count);
  void send_slices(const msg::reduce& share, const ordered_sum& sum);
  void send_sum(const bucket_id& id, const group_bucket& all);
  void take_part(const bucket_id& id, group_bucket& all, auto& share,
                 caf::typed_response_promise<msg::reduced> promise);
  void follow(const bucket_id& id, group_bucket& all);
  void note_launch(const msg::header& share, std::uint32_t rank, const group_bucket& all);
  void close(const bucket_id& id, group_bucket& all);
  void look_for_late_ranks();

  pointer self_;
  std::uint64_t run_ = 0;
  rank_layout ranks_;
  std::vector<msg::allreduce_actor> groups_;  ///< as in `group_layout`
  std::vector<caf::actor_addr> senders_;      ///< as in `group_layout`
  std::vector<std::uint32_t> numbers_;        ///< as in `group_layout`
  std::uint32_t part_ = 0;                    ///< as in `group_layout`
  std::uint32_t parts_ = 1;                   ///< as in `group_layout`
  std::chrono::milliseconds timeout_{0};
  bucket_window<group_bucket> buckets_;
  std::uint64_t collectives_ = 0;           ///< number launched so far
  std::unique_ptr<collective> collective_;  ///< declared last, so destroyed first
};

/// The behavior of one process's group in run `run`; spawn with this function.
msg::allreduce_actor::behavior_type allreduce_group(allreduce_group_state::pointer self, std::uint64_t run,
                                                    group_layout layout);

}  // namespace troupe::actors
