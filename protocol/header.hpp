// The header at the start of every message: who sent it, in which run and step, and in response to which message.
// Tracing, retry and exactly-once delivery rely on it.

#pragma once

#include <cstdint>

#include "trace/record/clock.hpp"

namespace troupe::msg {

/// Identifies a message within a run: the sender in the upper 16 bits, its sequence number in the lower 48.
using message_id = std::uint64_t;

struct header {
  std::uint64_t run = 0;
  /// The global step of the message, from 1; run and step together name the context. 0: outside any step.
  std::uint64_t step = 0;
  /// The sending actor's number within the run.
  std::uint32_t sender = 0;
  /// How many times the sending actor has been started.
  std::uint32_t incarnation = 0;
  /// Counts the sender's messages, from 1.
  std::uint64_t sequence = 0;
  /// The message that was being handled when this one was sent, or that this one answers; 0 if there was none.
  message_id cause = 0;
  /// When it was sent, in ticks of the sender's clock (trace/record/clock.hpp); 0: recording is off.
  std::uint64_t sent = 0;
  /// When it arrived from another process, in ticks of the receiver's clock; 0: it was local. Not part of the message.
  std::uint64_t arrived = 0;
};

/// The id by which other messages name `h` as their cause.
constexpr message_id id_of(const header& h) {
  return (static_cast<message_id>(h.sender) << 48) | (h.sequence & 0xffff'ffff'ffffULL);
}

template <class Inspector>
bool inspect(Inspector& f, header& x) {
  // Inspectors that compare message contents skip the sender and the times.
  if constexpr (requires { f.skip(x); }) return f.skip(x);
  if constexpr (Inspector::is_loading) x.arrived = trace::ticks_now();
  return f.object(x).fields(f.field("run", x.run), f.field("step", x.step), f.field("sender", x.sender),
                            f.field("incarnation", x.incarnation), f.field("sequence", x.sequence),
                            f.field("cause", x.cause), f.field("sent", x.sent));
}

/// Makes the headers of one actor's messages, numbered in the order in which they are made. Thread: only that actor's.
class header_source {
 public:
  header_source(std::uint64_t run, std::uint32_t sender, std::uint32_t incarnation = 0)
      : run_(run), sender_(sender), incarnation_(incarnation) {}

  header next(std::uint64_t step, message_id cause) { return {run_, step, sender_, incarnation_, ++sequence_, cause}; }

 private:
  std::uint64_t run_;
  std::uint32_t sender_;
  std::uint32_t incarnation_;
  std::uint64_t sequence_ = 0;
};

}  // namespace troupe::msg
