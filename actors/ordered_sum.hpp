// The allreduce of one bucket on the processor, as one process sees it: the caller adds ranks' shares and gets the
// actions to take next. It uses no messages, clock or threads; allreduce_group.cpp drives it.
//
// The result is the mean over all batches, ((r0 + r1) + r2) + ... times 1 / batches: one sum in rank order, with the
// same bits however the ranks are spread over processes and in whatever order their shares arrive. For that, one
// process gets every rank's numbers of a parameter before it adds the first two.
//
// A small bucket is sent whole to every process, and each process sums all of it, which takes the time of one message.
// Of many processes it is gathered by one, the root, which sends its sum to the others: that takes the time of two
// messages, but 2 (n - 1) messages instead of n (n - 1). A large bucket is cut into one slice per process, so that no
// parameter is summed twice (all-to-all, ordered sum, all-gather). With ranks 0 and 1 in process 0 and rank 2 in
// process 1:
//
//             slice 0         slice 1
//   rank 0  [ a0 a0 a0 a0 ] [ a1 a1 a1 ]     process 0 sends a1 and b1 to process 1
//   rank 1  [ b0 b0 b0 b0 ] [ b1 b1 b1 ]
//   rank 2  [ c0 c0 c0 c0 ] [ c1 c1 c1 ]     process 1 sends c0 to process 0
//             |               |
//   mean    [ (a0+b0)+c0  ] [ (a1+b1)+c1 ]   process 0 sends the left part to process 1, which sends the right one back
//
// Slices begin at multiples of 16 parameters, which are cache lines; the last slice takes the rest.
//
// A bucket's states, and the calls that leave them:
//
//   idle        `begin`                                 -> collecting
//   collecting  `add_share`, the last one expected      -> complete
//   complete    `sum`, sums of other processes missing  -> exchanging
//               `sum`, none missing                     -> reduced
//               `summed_elsewhere`                      -> reduced
//   exchanging  `add_sum`, the last one                 -> reduced
//   reduced     `end`                                   -> idle
//
// A process may send its sum while another still collects, since they need different slices: such a sum is kept.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "protocol/errors.hpp"

namespace troupe::actors {

/// The process of each rank of a group, and this process.
struct rank_layout {
  std::vector<std::uint32_t> process_of_rank;
  std::uint32_t processes = 1;
  std::uint32_t me = 0;

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(process_of_rank.size()); }
  bool is_local(std::uint32_t rank) const { return process_of_rank[rank] == me; }
};

/// What a process receives of the shares of other processes' ranks.
enum class bucket_exchange : std::uint8_t {
  whole,      ///< all numbers
  gathered,   ///< all numbers if it is the bucket's root, which sums it for all; else nothing
  slices,     ///< the numbers of the slice that it sums
  announced,  ///< no numbers: the bucket is summed elsewhere; only the arrival of the shares counts
};

/// Returns the fastest exchange: for at most 64 KiB gathered, if there are four processes or more; whole, if that sends
/// at most 64 KiB to all other processes together; else slices.
bucket_exchange fastest_exchange(std::uint32_t processes, std::uint64_t count);

/// Parameters [first, first + size) of a bucket.
struct bucket_slice {
  std::uint64_t first = 0;
  std::uint64_t size = 0;

  bool operator==(const bucket_slice&) const = default;
};

/// Why a message is refused.
struct refusal {
  protocol::errc code = protocol::errc::none;
  std::string why;
};

/// One rank's share of a bucket.
struct share_of_rank {
  std::uint32_t rank = 0;
  std::uint32_t batches = 1;  ///< 0: the rank had no batch, and its numbers are ignored
  bool stop = false;          ///< the rank wants to end the run
  std::uint64_t count = 0;    ///< parameters of the whole bucket
  std::uint64_t first = 0;    ///< the first parameter of `numbers`
  std::span<const float> numbers;
  bool save = false;  ///< the rank wants a checkpoint
};

/// What the caller does next, in this order.
struct bucket_actions {
  bool send_slices = false;  ///< send each other process that `takes_shares` its slice of the share just added
  bool sum = false;          ///< call `sum`, or have the bucket summed elsewhere
  bool send_sum = false;     ///< send this process's slice of the mean, `stop` and `save`, to the other processes
  bool finish = false;       ///< answer this process's ranks with the mean, then call `end`

  bool operator==(const bucket_actions&) const = default;
};

/// Not thread-safe. Reuses its memory for one bucket after another.
class ordered_sum {
 public:
  enum class state : std::uint8_t { idle, collecting, complete, exchanging, reduced };
  using outcome = tl::expected<bucket_actions, refusal>;

  /// The most parameters that another process may claim for a bucket.
  static constexpr std::uint64_t count_max = std::uint64_t{1} << 28;

  /// Starts bucket `bucket` with `count` parameters, as its first share says. Requires: `layout` outlives the sum.
  void begin(const rank_layout& layout, std::uint32_t bucket, std::uint64_t count, bucket_exchange how);

  /// Adds a rank's share: whole for this process's ranks, this process's slice for others. A refused share changes
  /// nothing. Requires: `numbers` stay in place until the bucket is reduced.
  outcome add_share(const share_of_rank& share);

  /// Sums this process's slice. Requires: the bucket is complete.
  bucket_actions sum();

  /// Adds the slice that process `from` has summed; none: the sender is unknown, and `first` identifies it. `stop` and
  /// `save`: whether some rank whose share has gone there wants to end the run, or wants a checkpoint.
  outcome add_sum(std::optional<std::uint32_t> from, std::uint64_t first, std::span<const float> numbers,
                  bool stop = false, bool save = false);

  /// The announced bucket has been summed elsewhere.
  void summed_elsewhere();

  /// Ends the bucket.
  void end();

  state now() const { return state_; }
  std::uint64_t count() const { return count_; }
  bool has_share(std::uint32_t rank) const { return parts_[rank].has_value(); }
  /// Returns whether this process still needs this rank's share, or the sum of its process.
  bool waits_for(std::uint32_t rank) const;
  /// Returns whether `process` needs the shares of other processes' ranks.
  bool takes_shares(std::uint32_t process) const { return !root() || *root() == process; }
  /// Returns whether this process needs the share of `rank`.
  bool needs_share(std::uint32_t rank) const { return layout_->is_local(rank) || takes_shares(layout_->me); }
  /// The process that sums the whole bucket for all; none: this bucket is not gathered.
  std::optional<std::uint32_t> root() const;
  /// Requires: the share has been added.
  std::uint32_t batches_of(std::uint32_t rank) const { return parts_[rank]->batches; }
  /// Returns the number of batches of all shares so far.
  std::uint64_t batches() const;
  /// Returns whether some rank wants to end the run.
  bool stop() const;
  /// Returns whether some rank wants a checkpoint.
  bool save() const;
  /// Returns the slice that `process` sums.
  bucket_slice slice_of(std::uint32_t process) const;
  /// The memory of the mean: after `sum`, this process's slice is written; in state reduced, all of it.
  const std::shared_ptr<float[]>& mean() const { return mean_; }

 private:
  void enter(state next);
  float* room_for_mean();

  state state_ = state::idle;
  const rank_layout* layout_ = nullptr;
  std::uint32_t bucket_ = 0;
  std::uint64_t count_ = 0;
  bucket_exchange exchange_ = bucket_exchange::whole;
  std::vector<std::optional<share_of_rank>> parts_;  ///< by rank
  std::uint32_t arrived_ = 0;
  std::uint32_t expected_ = 0;  ///< shares
  std::vector<bool> summed_;    ///< by process: its sum has arrived
  std::uint32_t sums_missing_ = 0;
  bool stop_elsewhere_ = false;  ///< a sum that has arrived says so
  bool save_elsewhere_ = false;  ///< likewise
  std::shared_ptr<float[]> mean_;
  std::vector<const float*> inputs_;  ///< of `sum`, a member to reuse its memory
};

}  // namespace troupe::actors
