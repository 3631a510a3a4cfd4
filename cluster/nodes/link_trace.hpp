// Records what a process's links carry: messages sent and received, and their credit.

#pragma once

#include <caf/type_id.hpp>
#include <cstdint>

#include "protocol/header.hpp"
#include "trace/record/recorder.hpp"

namespace troupe::nodes {

/// Thread: any.
class link_trace {
 public:
  /// `recorder`: may be null. `peer`: the node at the other end.
  link_trace(trace::recorder* recorder, std::uint32_t peer) : recorder_(recorder), peer_(peer) {}

  /// A message was sent to the peer's actor `receiver` (kind sent), or has arrived for ours (kind arrived).
  void passes(trace::kind what, caf::type_id_t type, const msg::header& head, std::uint32_t receiver,
              std::uint8_t flags, std::uint64_t bytes) const;
  /// A message could not be sent, or had no receiver.
  void dropped(trace::drop_reason why, caf::type_id_t type, const msg::header& head) const;
  /// Message `head` waits for credit while `under_way` bytes are in flight.
  void waits_for_credit(const msg::header& head, std::uint64_t under_way) const;
  /// Credit for `bytes` has returned; `under_way` bytes are still in flight.
  void credited(std::uint64_t bytes, std::uint64_t under_way) const;
  void up() const;
  void down() const;

 private:
  void note(trace::kind what, trace::record made, std::uint32_t actor, std::uint64_t bytes = 0,
            std::uint8_t flags = 0) const;

  trace::recorder* recorder_;
  std::uint32_t peer_;
};

}  // namespace troupe::nodes
