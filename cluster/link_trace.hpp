// What goes over the links of a process, as records: messages that leave and come, and the credit they wait for.

#pragma once

#include <caf/type_id.hpp>
#include <cstdint>

#include "protocol/header.hpp"
#include "trace/recorder.hpp"

namespace troupe::cluster {

/// May be used from any thread.
class link_trace {
 public:
  /// `recorder` may be null; `peer`: the node at the other end.
  link_trace(trace::recorder* recorder, std::uint32_t peer) : recorder_(recorder), peer_(peer) {}

  /// A message has gone to actor `receiver` there (kind sent), or has come for it here (kind arrived).
  void passes(trace::kind what, caf::type_id_t type, const msg::header& head, std::uint32_t receiver,
              std::uint8_t flags, std::uint64_t bytes) const;
  /// It could not go, or nobody wanted it.
  void dropped(trace::drop_reason why, caf::type_id_t type, const msg::header& head) const;
  /// Message `head` has to wait while so many bytes are under way.
  void waits_for_credit(const msg::header& head, std::uint64_t under_way) const;
  /// Credit for `bytes` has come back, `under_way` are left.
  void credited(std::uint64_t bytes, std::uint64_t under_way) const;
  void up() const;
  void down() const;

 private:
  void note(trace::kind what, trace::record made, std::uint32_t actor, std::uint64_t bytes = 0,
            std::uint8_t flags = 0) const;

  trace::recorder* recorder_;
  std::uint32_t peer_;
};

}  // namespace troupe::cluster
