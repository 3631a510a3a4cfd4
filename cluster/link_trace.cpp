#include "cluster/link_trace.hpp"

namespace troupe::cluster {

using trace::record;

void link_trace::note(trace::kind what, const record& with, std::uint32_t actor, std::uint64_t bytes,
                      std::uint8_t flags) const {
  record made = with;
  made.begin = trace::ticks_now();
  made.queued48_actor16 = record::pack(0, static_cast<std::uint16_t>(actor));
  made.bytes32_kind8_flags8_stamp16 = trace::pack_kind(bytes, what, flags);
  recorder_->append(made);
}

void link_trace::passes(trace::kind what, caf::type_id_t type, const msg::header& head, std::uint32_t receiver,
                        std::uint8_t flags, std::uint64_t bytes) const {
  if (recorder_ == nullptr) return;
  if (!recorder_->wants(type, head.step)) return recorder_->note_dropped();
  record made;
  made.sent = head.sent;
  made.id = msg::id_of(head);
  made.cause = head.cause;
  made.busy48_type16 = record::pack(0, type);
  made.step48_aux16 = record::pack(head.step, static_cast<std::uint16_t>(receiver));
  note(what, made, what == trace::kind::sent ? head.sender : receiver, bytes, flags);
}

void link_trace::dropped(trace::drop_reason why, caf::type_id_t type, const msg::header& head) const {
  if (recorder_ == nullptr) return;
  record made;
  made.id = msg::id_of(head);
  made.cause = head.cause;
  made.busy48_type16 = record::pack(0, type);
  made.step48_aux16 = record::pack(head.step, static_cast<std::uint16_t>(why));
  note(trace::kind::drop, made, head.sender, 0, 0);
}

void link_trace::waits_for_credit(const msg::header& head, std::uint64_t under_way) const {
  if (recorder_ == nullptr) return;
  record made;
  made.sent = under_way;
  made.id = msg::id_of(head);
  made.step48_aux16 = record::pack(head.step, static_cast<std::uint16_t>(peer_));
  note(trace::kind::credit_wait, made, head.sender, 0, 0);
}

void link_trace::credited(std::uint64_t bytes, std::uint64_t under_way) const {
  if (recorder_ == nullptr) return;
  record made;
  made.sent = under_way;
  made.step48_aux16 = record::pack(0, static_cast<std::uint16_t>(peer_));
  note(trace::kind::credit, made, 0, bytes, 0);
}

void link_trace::note_peer(trace::kind what) const {
  if (recorder_ == nullptr) return;
  record made;
  made.step48_aux16 = record::pack(0, static_cast<std::uint16_t>(peer_));
  note(what, made, 0, 0, 0);
}

void link_trace::up() const { note_peer(trace::kind::link_up); }
void link_trace::down() const { note_peer(trace::kind::link_down); }

}  // namespace troupe::cluster
