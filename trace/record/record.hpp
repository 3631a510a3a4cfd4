// The record of a trace: 64 bytes for each message that an actor handled, and for every other recorded event.
// docs/formats.md specifies the same byte by byte.

#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace troupe::trace {

/// What a record describes. The numbers are part of the file format: append, never reorder.
enum class kind : std::uint8_t {
  none = 0,
  handled,      ///< a message was handled; holds when it was sent, arrived, begun and ended
  sent,         ///< a message was sent to another process. aux: the receiver
  arrived,      ///< a message arrived from another process. aux: the receiver
  released,     ///< `id` was sent while handling `cause`, but answers an earlier message that had been parked
  range,        ///< a span of work. type: which (range_name). id: the message it belongs to
  step,         ///< a trainer's step, from its rows to its commit
  collective,   ///< sent: first launch; begin: last launch, i.e. its start; end: completed. id: its number. aux: bucket
  spawn,        ///< an actor starts
  exit,         ///< an actor ends. aux: 0 normally, else an error's code; type: that code's category
  drop,         ///< a message that its receiver could not use, or that could not be sent. aux: drop_reason
  timer,        ///< work that no message requested: a timer, or an actor's own turn
  credit_wait,  ///< `id` waits for credit. sent: bytes in flight; aux: the destination node
  credit,       ///< credit was returned. bytes: how much; sent: bytes in flight after it; aux: the node it came from
  link_up,      ///< aux: the node at the other end
  link_down,    ///< aux: the node at the other end
  checkpoint,   ///< a phase of a checkpoint. type: which (range_name)
  metric,       ///< a metric of the run. type: which (metric_name); sent: the bits of a double
  collective_launch,  ///< a rank's share of collective `cause` arrived. id: the message; aux: the rank; type: who sums
  stalled,            ///< the process did not run: stopped, frozen, or without a core
  device_range,       ///< a span of a stream's work, by its device's clock. type: which (range_name). aux: the device
};

/// Why a message was dropped.
enum class drop_reason : std::uint16_t { unexpected = 1, link_ended, not_carried };

/// Spans of work that get a record of their own.
enum class range_name : std::uint16_t {
  none = 0,
  forward_backward,     ///< trainer: pooling, forward, loss, backward to the rows
  backward_parameters,  ///< trainer: backward to the dense weights
  prepare_batch,        ///< trainer: the next batch
  evaluate,             ///< trainer: a batch of test rows
  apply,                ///< server: one optimizer step, all gradients collected and applied
  pool,                 ///< server: pooling the rows of one lookup
  sum,                  ///< allreduce group: the sum of a bucket's shares
  save,                 ///< a checkpoint: writing
  restore,              ///< a checkpoint: reading
  commit,               ///< a checkpoint: writing its manifest
  group,                ///< server: grouping a step's gradients by row
  update,               ///< server, trainer: applying gradients to the weights
  copy,                 ///< copies between a device and the host
  device_wait,          ///< the host waits for a device
  forward,              ///< stage of a pipeline: a micro-batch forward, at the last stage with its loss
  backward,             ///< stage of a pipeline: a micro-batch back
  wait_for_slices,      ///< in a pass: other slices' shares of a sum
  count
};

/// Numbers in this range, of ranges, metrics and message types, stand for names that a program gives:
/// `recorder::number_of`.
constexpr std::uint16_t given_names_begin = 0x4000;
constexpr std::uint16_t given_names_end = 0x8000;

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
constexpr std::uint8_t refused = 2;  ///< handled: answered with an error, or ended its actor with one
constexpr std::uint8_t request = 4;  ///< handled, sent, arrived: the sender expects an answer
constexpr std::uint8_t remote = 8;   ///< handled: the sender is in another process
constexpr std::uint8_t answer = 16;  ///< handled, sent, arrived: the answer to the message in `cause`
}  // namespace flag

/// The layout in the file: little-endian words. Times are ticks of the writing process's clock, except `sent`, which is
/// of the sender's clock. A value that does not fit its field is stored as the field's maximum.
struct record {
  std::uint64_t begin = 0;
  std::uint64_t sent = 0;
  std::uint64_t id = 0;     ///< the message
  std::uint64_t cause = 0;  ///< the message that caused it to be sent
  std::uint64_t busy48_type16 = 0;
  std::uint64_t queued48_actor16 = 0;
  std::uint64_t step48_aux16 = 0;
  std::uint64_t bytes32_kind8_flags8_stamp16 = 0;

  static constexpr std::uint64_t max48 = (std::uint64_t{1} << 48) - 1;
  static constexpr std::uint64_t pack(std::uint64_t low48, std::uint64_t high16) {
    return std::min(low48, max48) | high16 << 48;
  }

  /// Ticks from begin to end.
  std::uint64_t busy() const { return busy48_type16 & max48; }
  std::uint16_t type() const { return static_cast<std::uint16_t>(busy48_type16 >> 48); }
  /// Ticks from arrival to begin.
  std::uint64_t queued() const { return queued48_actor16 & max48; }
  /// The actor that handled it, or that the record belongs to.
  std::uint16_t actor() const { return static_cast<std::uint16_t>(queued48_actor16 >> 48); }
  std::uint64_t step() const { return step48_aux16 & max48; }
  std::uint16_t aux() const { return static_cast<std::uint16_t>(step48_aux16 >> 48); }
  std::uint32_t bytes() const { return static_cast<std::uint32_t>(bytes32_kind8_flags8_stamp16); }
  kind what() const { return static_cast<kind>(static_cast<std::uint8_t>(bytes32_kind8_flags8_stamp16 >> 32)); }
  std::uint8_t flags() const { return static_cast<std::uint8_t>(bytes32_kind8_flags8_stamp16 >> 40); }
  std::uint16_t stamp() const { return static_cast<std::uint16_t>(bytes32_kind8_flags8_stamp16 >> 48); }
};

static_assert(sizeof(record) == 64 && std::is_trivially_copyable_v<record>);

/// The last word without the stamp; the recorder sets the stamp once the other words are written.
constexpr std::uint64_t pack_kind(std::uint64_t bytes, kind what, std::uint8_t flags) {
  constexpr std::uint64_t max32 = UINT32_MAX;
  return std::min(bytes, max32) | std::uint64_t{static_cast<std::uint8_t>(what)} << 32 | std::uint64_t{flags} << 40;
}

/// A message's sender, and its sequence number among that sender's messages (see protocol/header.hpp).
constexpr std::uint16_t sender_of(std::uint64_t id) { return static_cast<std::uint16_t>(id >> 48); }
constexpr std::uint64_t sequence_of(std::uint64_t id) { return id & record::max48; }

}  // namespace troupe::trace
