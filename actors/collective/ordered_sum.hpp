// A sum of several ranks' shares, as one process sees it: the caller adds shares and the sums of other processes, and
// reads the state. It uses no actors, messages, clock or threads, and knows bytes, not types. An allreduce group uses
// one for each bucket (allreduce_group.cpp); the library, one for each call of a collective
// (troupe/runtime/group_call.cpp), with a process for each rank.
//
// The result is ((r0 + r1) + r2) + ...: one sum in rank order, with the same bits however the ranks are spread over
// processes and in whatever order their shares arrive. For that, one process gets every rank's numbers of an element
// before it adds the first two.
//
// Few numbers are sent whole to every process, and each process sums all of them, which takes the time of one message.
// With many processes, one of them, the root, gathers the numbers and sends its sum to the others: that takes the time
// of two messages, but 2 (n - 1) messages instead of n (n - 1). Many numbers are cut into one slice per process, so
// that no element is summed twice (all-to-all, ordered sum, all-gather). With ranks 0 and 1 in process 0 and rank 2 in
// process 1:
//
//             slice 0         slice 1
//   rank 0  [ a0 a0 a0 a0 ] [ a1 a1 a1 ]     process 0 sends a1 and b1 to process 1
//   rank 1  [ b0 b0 b0 b0 ] [ b1 b1 b1 ]
//   rank 2  [ c0 c0 c0 c0 ] [ c1 c1 c1 ]     process 1 sends c0 to process 0
//             |               |
//   sum     [ (a0+b0)+c0  ] [ (a1+b1)+c1 ]   process 0 sends the left part to process 1, which sends the right one back
//
// Slices begin at multiples of 16 elements, which are whole cache lines; the last slice has the rest.
//
// The states, and the calls that leave them:
//
//   idle        `begin`                                 -> collecting
//   collecting  `add_share`, the last one expected      -> complete
//   complete    `sum`, sums of other processes missing  -> exchanging
//               `sum`, none missing                     -> reduced
//               `summed_elsewhere`                      -> reduced
//   exchanging  `add_sum`, the last one                 -> reduced
//   reduced     `end`                                   -> idle
//
// A process may send its sum while another still collects, since they need different slices: the sum is counted when it
// arrives.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

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
enum class share_exchange : std::uint8_t {
  whole,      ///< all numbers
  gathered,   ///< the root, which sums them for all processes, gets all numbers; the others none
  slices,     ///< the numbers of the slice that it sums for all processes
  parts,      ///< the numbers of the part that it sums for itself; all parts have one size
  announced,  ///< no numbers: they are summed elsewhere, or not at all; only the arrival of the shares counts
};

/// Returns the fastest exchange: `gathered` for at most 64 KiB, if `may_gather` and there are at least four processes;
/// `whole` if that sends at most 64 KiB to all other processes together; else `slices`.
share_exchange fastest_exchange(std::uint32_t processes, std::uint64_t count, std::size_t number_bytes,
                                bool may_gather);

/// Elements [first, first + size) of the whole sum.
struct sum_slice {
  std::uint64_t first = 0;
  std::uint64_t size = 0;

  bool operator==(const sum_slice&) const = default;
};

/// What is summed, and how. `root`: the gathering process.
struct sum_plan {
  share_exchange how = share_exchange::whole;
  std::uint64_t count = 0;
  std::size_t number_bytes = sizeof(float);
  std::uint32_t root = 0;
};

/// The share of one rank.
struct share_of_rank {
  std::uint32_t rank = 0;
  std::uint32_t batches = 1;  ///< 0: the rank had no batch, and its numbers are ignored
  std::uint64_t count = 0;    ///< elements of the whole sum
  std::uint64_t first = 0;    ///< the first element of `numbers`
  std::span<const std::byte> numbers = {};
};

/// Why a share or a sum is refused.
struct refusal {
  enum class cause : std::uint8_t {
    not_due,  ///< it came before, or another process should get it
    misfit    ///< its elements are not the expected ones
  };

  cause what = cause::misfit;
  std::string why;
};

/// out = ((in[0] with in[1]) with in[2]) ..., `count` numbers each.
using reduction = std::function<void(std::span<const std::byte* const> in, std::size_t count, std::byte* out)>;
/// The sum of floats, times `scale`.
reduction sum_of_floats(float scale);

/// Not thread-safe. Reuses its memory for one sum after another.
class ordered_sum {
 public:
  enum class state : std::uint8_t { idle, collecting, complete, exchanging, reduced };

  /// The most elements that another process may claim.
  static constexpr std::uint64_t count_max = std::uint64_t{1} << 28;

  /// Begins a sum. Requires: `layout` outlives it.
  void begin(const rank_layout& layout, const sum_plan& plan);

  /// Adds a rank's share: whole for this process's ranks, this process's slice for others. A refused share changes
  /// nothing. Requires: `numbers` stay in place until the sum is reduced.
  std::optional<refusal> add_share(const share_of_rank& share);

  /// Writes this process's slice of the sum to `to`; zeros if no rank had a batch. Requires: the state is complete.
  void sum(const reduction& add, std::byte* to);

  /// Process `from` has summed this slice; none: the sender is unknown, and the slice identifies it. Unless the sum is
  /// refused, the caller copies its numbers.
  std::optional<refusal> add_sum(std::optional<std::uint32_t> from, const sum_slice& which);

  /// The announced shares have been summed elsewhere, or there is nothing to sum.
  void summed_elsewhere();

  void end() { enter(state::idle); }

  state now() const { return state_; }
  std::uint64_t count() const { return plan_.count; }
  bool has_share(std::uint32_t rank) const { return shares_[rank].has_value(); }
  bool lacks_share(std::uint32_t rank) const { return needs_share(rank) && !has_share(rank); }
  /// Returns whether all shares are here, but not the sum of this rank's process.
  bool lacks_sum(std::uint32_t rank) const;
  /// Returns whether `process` needs the shares of other processes' ranks.
  bool takes_shares(std::uint32_t process) const { return root().value_or(process) == process; }
  /// Returns whether `process` sends its sum to the others.
  bool sends_sum(std::uint32_t process) const { return plan_.how == share_exchange::slices || root() == process; }
  /// The process that sums everything for all; none: the sum is not gathered.
  std::optional<std::uint32_t> root() const {
    return plan_.how == share_exchange::gathered ? std::optional(plan_.root) : std::nullopt;
  }
  /// Requires: the share has been added.
  std::uint32_t batches_of(std::uint32_t rank) const { return shares_[rank]->batches; }
  /// Returns the number of batches of all shares so far.
  std::uint64_t batches() const;
  /// Returns the slice that `process` sums.
  sum_slice slice_of(std::uint32_t process) const;

 private:
  void enter(state next);
  bool needs_share(std::uint32_t rank) const { return layout_->is_local(rank) || takes_shares(layout_->me); }

  state state_ = state::idle;
  const rank_layout* layout_ = nullptr;
  sum_plan plan_;
  std::vector<std::optional<share_of_rank>> shares_;  ///< by rank
  std::uint32_t shares_missing_ = 0;
  std::vector<bool> summed_;  ///< by process: its sum has arrived
  std::uint32_t sums_missing_ = 0;
};

}  // namespace troupe::actors
