// The allreduce group of one process: collects each rank's share of a bucket and answers its own ranks with the mean
// over the ranks that had a batch, summed in rank order, wherever the ranks are.
//
// Over several processes, a small bucket goes whole from each process to every other, and each sums it up for itself:
// one message's time. Of a large one, every process gets all ranks' shares of one slice, sums that, and sends the sum
// to the others (all-to-all, ordered sum, all-gather), so that no byte is summed twice. Both give the same bits as one
// process does.
//
// Trainers on CUDA devices: the shares stay there, and `device_reduction` adds them up (NCCL, between devices). What
// the groups of several processes send each other are announcements then, shares without numbers: a sum is launched
// when every rank has announced its share. So nobody waits on a device for a rank that is missing, and it can be named.

#pragma once

#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/actor_trace.hpp"
#include "actors/device_reduction.hpp"
#include "protocol/messages.hpp"

namespace troupe {

/// Which processes the ranks of a group are in.
struct group_layout {
  std::vector<std::uint32_t> process_of_rank;
  /// The groups of the other processes, by process; a null handle for one's own. Empty: there is but one process.
  std::vector<allreduce_actor> groups;
  std::uint32_t me = 0;
  /// How long a bucket may miss a rank; 0: for ever.
  std::chrono::milliseconds patience{0};
  /// Who sends what comes from another process, by process. Empty: they are not told apart.
  std::vector<caf::actor_addr> senders{};

  /// All `trainers` ranks in one process.
  static group_layout one_process(std::uint32_t trainers) {
    return {std::vector<std::uint32_t>(trainers, 0), {}, 0, {}, {}};
  }
};

class allreduce_group_state {
 public:
  using pointer = allreduce_actor::stateful_pointer<allreduce_group_state>;

  /// Far more than a model has layers.
  static constexpr std::size_t buckets_max = 1024;

  explicit allreduce_group_state(pointer self) : self_(self) {}
  ~allreduce_group_state();
  allreduce_group_state(const allreduce_group_state&) = delete;
  allreduce_group_state& operator=(const allreduce_group_state&) = delete;

  std::string name = "allreduce";
  /// The newest step that a bucket has come of.
  std::uint64_t step = 0;
  actor_trace trace;

  void start(std::uint64_t run, group_layout layout);
  caf::result<reduced> handle(reduce& share);
  caf::result<void> handle(bucket_share& share);
  caf::result<void> handle(bucket_sum& sum);
  caf::result<void> handle(const group_devices& theirs);
  caf::result<actor_status> handle(const actor_query& query);

 private:
  /// Parameters [first, first + size) of a bucket.
  struct slice {
    std::uint64_t first = 0;
    std::uint64_t size = 0;
  };

  struct share_of_rank {
    bool arrived = false;
    header head;
    std::uint32_t batches = 0;
    bool stop = false;
    tensor grad;  ///< whole for this process's ranks, the slice that is summed here for others
    caf::typed_response_promise<reduced> promise;
  };

  struct collection {
    std::uint64_t count = 0;     ///< parameters
    std::uint64_t sequence = 0;  ///< among the collectives of this group, from 1
    std::uint64_t launched = 0;  ///< ticks: the first share came
    std::uint64_t started = 0;   ///< ticks: the last share came
    std::chrono::steady_clock::time_point begin;
    std::uint32_t arrived = 0;
    std::uint32_t sums_missing = 0;  ///< slices that other processes sum up
    std::vector<bool> summed;        ///< by process
    tensor_buffer sum;
    std::vector<share_of_rank> ranks;
  };

  using key = std::pair<std::uint64_t, std::uint32_t>;  // step and bucket

  std::uint32_t processes() const {
    return layout_.groups.empty() ? 1 : static_cast<std::uint32_t>(layout_.groups.size());
  }
  std::uint32_t trainers() const { return static_cast<std::uint32_t>(layout_.process_of_rank.size()); }
  bool is_local(std::uint32_t rank) const { return layout_.process_of_rank[rank] == layout_.me; }
  bool goes_whole(std::uint64_t count) const;
  slice slice_of(std::uint32_t process, std::uint64_t count) const;

  collection& open(const key& which, std::uint64_t count);
  caf::error check(const header& head, std::uint32_t rank, std::uint32_t bucket, bool local) const;
  caf::error check_under_way(const key& which) const;
  bool may_come_from(std::uint32_t process) const;
  static caf::error check_count(const collection& all, std::uint32_t rank, std::uint32_t bucket, std::uint64_t count);
  static tensor_buffer& sum_of(collection& all);
  void send_to_others(const reduce& share);
  void arrived(const key& which, collection& all);
  void sum(const key& which, collection& all);
  void note_launch(const header& share, std::uint32_t rank, collection& all);
  void finish_sum(const key& which, collection& all);
  void close(const key& which, collection& all);
  template <class MeanOf>
  void finish(const key& which, collection& all, MeanOf mean_of);
  void look_for_late_ranks();

  // On devices.
  void use_devices(const compute_devices& devices);
  std::string trainers_of(std::uint32_t process) const;
  void introduce_devices();
  void connect_devices();
  void launch_ready();
  std::vector<device_reduction::share> local_shares(const collection& all) const;
  void answer_from_devices(const key& which, collection& all, const std::vector<device_reduction::share>& shares);
  void forget_what_is_over();
  void look_for_late_devices();
  std::string ranks_of_others() const;
  caf::result<void> refuse(std::uint64_t at_step, const caf::error& cause);

  pointer self_;
  std::uint64_t run_ = 0;
  group_layout layout_;
  std::map<key, collection> open_;
  std::uint64_t collectives_ = 0;  ///< ever launched
  std::uint64_t over_step_ = 0;    ///< the newest step that has buckets which are over
  std::bitset<buckets_max> over_;  ///< and those
  std::vector<collection> spare_;  // memory to be used again
  std::vector<const float*> inputs_;

  // On devices.
  struct launched {
    key which;
    std::chrono::steady_clock::time_point begin;
    std::vector<tensor> means;
  };
  std::unique_ptr<device_reduction> reduction_;  ///< null: the ranks compute on the processor
  std::vector<group_devices> introduced_;        ///< by process
  std::deque<key> ready_;                        ///< every rank's share is there
  std::deque<launched> launched_;                ///< and these are on the devices
  bool front_is_launched_ = false;               ///< of those that are ready
  std::chrono::steady_clock::time_point last_launch_;
  bool will_look_again_ = false;
};

/// Answers this process's ranks, with the mean for each.
template <class MeanOf>
void allreduce_group_state::finish(const key& which, collection& all, MeanOf mean_of) {
  bool stop = false;
  for (const share_of_rank& rank : all.ranks) stop = stop || rank.stop;
  for (std::uint32_t rank = 0; rank < trainers(); ++rank) {
    if (!is_local(rank)) continue;
    share_of_rank& mine = all.ranks[rank];
    mine.promise.deliver(reduced{trace.next(which.first, id_of(mine.head)), which.second, stop, mean_of(rank)});
  }
  close(which, all);
}

/// The behavior of one process's group in run `run`; spawn with this function.
allreduce_actor::behavior_type allreduce_group(allreduce_group_state::pointer self, std::uint64_t run,
                                               group_layout layout);

}  // namespace troupe
