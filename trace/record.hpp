// The record of a trace: 64 bytes for each message that an actor has handled, and for whatever else is worth knowing.
// docs/formats.md has the same byte by byte.

#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace troupe::trace {

/// What a record tells of. Numbers are part of the file format: append, never reorder.
enum class kind : std::uint8_t {
  none = 0,
  handled,      ///< a message: sent, arrived, begun and ended
  sent,         ///< a message has gone to another process. aux: the receiver
  arrived,      ///< a message has come from another process. aux: the receiver
  released,     ///< `id` was sent while `cause` was handled, but answers another message that had been parked
  range,        ///< a stretch of work. type: which (range_name). id: the message that it belongs to
  step,         ///< a trainer's step, from its rows to its commit
  collective,   ///< sent: first launched; begin: all launched, so started; end: completed. id: its number. aux: bucket
  spawn,        ///< an actor begins
  exit,         ///< an actor ends. aux: 0 normally, else an error's code; type: that code's category
  drop,         ///< a message of no use to who got it, or that could not be sent. aux: drop_reason
  timer,        ///< work that no message asked for: a timer, or an actor's own turn
  credit_wait,  ///< `id` waits for credit. sent: bytes under way; aux: the node it is for
  credit,       ///< credit has come back. bytes: how much; sent: bytes under way after it; aux: from which node
  link_up,      ///< aux: the node at the other end
  link_down,    ///< aux: likewise
  checkpoint,   ///< a phase of a checkpoint. type: which (range_name)
  metric,       ///< a figure of the run. type: which (metric_name); sent: the bits of a double
  collective_launch,  ///< a rank's share of collective `cause` has come. id: the message; aux: the rank
};

/// Why a message was dropped.
enum class drop_reason : std::uint16_t { unexpected = 1, link_ended, not_carried };

/// Stretches of work that have a record of their own.
enum class range_name : std::uint16_t {
  none = 0,
  forward_backward,     ///< trainer: pool, forward, loss, backward to the rows
  backward_parameters,  ///< trainer: backward to the weights
  prepare_batch,        ///< trainer: the next batch
  evaluate,             ///< trainer: a batch of test rows
  apply,                ///< server: one optimizer step, all gradients collected and applied
  pool,                 ///< server: the rows of one lookup
  sum,                  ///< allreduce group: the sum of a bucket's shares
  save,                 ///< a checkpoint: writing
  restore,              ///< a checkpoint: reading
  commit,               ///< a checkpoint: its manifest
  count
};

enum class metric_name : std::uint16_t {
  none = 0,
  loss,
  auc,
  accuracy,
  samples_per_s,
  staleness,
  test_loss,
  rmse,
  count
};

namespace flag {
constexpr std::uint8_t parked = 1;   ///< handled: the answer comes later
constexpr std::uint8_t refused = 2;  ///< handled: answered with an error, or the actor ended by one
constexpr std::uint8_t request = 4;  ///< handled, sent, arrived: an answer is owed
constexpr std::uint8_t remote = 8;   ///< handled: the sender is in another process
constexpr std::uint8_t answer = 16;  ///< handled, sent, arrived: answers the message that is its cause
}  // namespace flag

/// As it lies in the file: little-endian words. Times are ticks of the writing process's clock, but for `sent`, which
/// is of the sender's. What does not fit is the largest number that does.
struct record {
  std::uint64_t begin = 0;
  std::uint64_t sent = 0;
  std::uint64_t id = 0;     ///< the message
  std::uint64_t cause = 0;  ///< the message because of which that one was sent
  std::uint64_t busy48_type16 = 0;
  std::uint64_t queued48_actor16 = 0;
  std::uint64_t step48_aux16 = 0;
  std::uint64_t bytes32_kind8_flags8_stamp16 = 0;

  static constexpr std::uint64_t max48 = (std::uint64_t{1} << 48) - 1;
  static constexpr std::uint64_t pack(std::uint64_t low48, std::uint64_t high16) {
    return std::min(low48, max48) | high16 << 48;
  }

  /// begin to end
  std::uint64_t busy() const { return busy48_type16 & max48; }
  std::uint16_t type() const { return static_cast<std::uint16_t>(busy48_type16 >> 48); }
  /// arrival to begin
  std::uint64_t queued() const { return queued48_actor16 & max48; }
  /// who handled it, or whose record it is
  std::uint16_t actor() const { return static_cast<std::uint16_t>(queued48_actor16 >> 48); }
  std::uint64_t step() const { return step48_aux16 & max48; }
  std::uint16_t aux() const { return static_cast<std::uint16_t>(step48_aux16 >> 48); }
  std::uint32_t bytes() const { return static_cast<std::uint32_t>(bytes32_kind8_flags8_stamp16); }
  kind what() const { return static_cast<kind>(static_cast<std::uint8_t>(bytes32_kind8_flags8_stamp16 >> 32)); }
  std::uint8_t flags() const { return static_cast<std::uint8_t>(bytes32_kind8_flags8_stamp16 >> 40); }
  std::uint16_t stamp() const { return static_cast<std::uint16_t>(bytes32_kind8_flags8_stamp16 >> 48); }
};

static_assert(sizeof(record) == 64 && std::is_trivially_copyable_v<record>);

/// The last word but for the stamp, which the recorder sets when the rest is in place.
constexpr std::uint64_t pack_kind(std::uint64_t bytes, kind what, std::uint8_t flags) {
  constexpr std::uint64_t max32 = UINT32_MAX;
  return std::min(bytes, max32) | std::uint64_t{static_cast<std::uint8_t>(what)} << 32 | std::uint64_t{flags} << 40;
}

/// A message's sender, and its place among what that one has sent (see protocol/header.hpp).
constexpr std::uint16_t sender_of(std::uint64_t id) { return static_cast<std::uint16_t>(id >> 48); }
constexpr std::uint64_t sequence_of(std::uint64_t id) { return id & record::max48; }

}  // namespace troupe::trace
