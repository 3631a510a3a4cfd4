#include "cluster/nodes/link_trace.hpp"

namespace troupe::nodes {

using trace::record;

namespace {

std::uint64_t pack_aux(std::uint64_t step, std::uint32_t aux) {
  return record::pack(step, static_cast<std::uint16_t>(aux));
}

record record_of(caf::type_id_t type, const msg::header& head, std::uint32_t aux) {
  return {.id = msg::id_of(head),
          .cause = head.cause,
          .busy48_type16 = record::pack(0, type),
          .step48_aux16 = pack_aux(head.step, aux)};
}

}  // namespace

void link_trace::note(trace::kind what, record made, std::uint32_t actor, std::uint64_t bytes,
                      std::uint8_t flags) const {
  if (recorder_ == nullptr) return;
  made.begin = trace::ticks_now();
  made.queued48_actor16 = record::pack(0, static_cast<std::uint16_t>(actor));
  made.bytes32_kind8_flags8_stamp16 = trace::pack_kind(bytes, what, flags);
  recorder_->append(made);
}

void link_trace::passes(trace::kind what, caf::type_id_t type, const msg::header& head, std::uint32_t receiver,
                        std::uint8_t flags, std::uint64_t bytes) const {
  if (recorder_ != nullptr && !recorder_->wants(type, head.step)) return recorder_->note_dropped();
  record made = record_of(type, head, receiver);
  made.sent = head.sent;
  note(what, made, what == trace::kind::sent ? head.sender : receiver, bytes, flags);
}

void link_trace::dropped(trace::drop_reason why, caf::type_id_t type, const msg::header& head) const {
  note(trace::kind::drop, record_of(type, head, static_cast<std::uint32_t>(why)), head.sender);
}

void link_trace::waits_for_credit(const msg::header& head, std::uint64_t under_way) const {
  note(trace::kind::credit_wait,
       {.sent = under_way, .id = msg::id_of(head), .step48_aux16 = pack_aux(head.step, peer_)}, head.sender);
}

void link_trace::credited(std::uint64_t bytes, std::uint64_t under_way) const {
  note(trace::kind::credit, {.sent = under_way, .step48_aux16 = pack_aux(0, peer_)}, 0, bytes);
}

void link_trace::up() const { note(trace::kind::link_up, {.step48_aux16 = pack_aux(0, peer_)}, 0); }
void link_trace::down() const { note(trace::kind::link_down, {.step48_aux16 = pack_aux(0, peer_)}, 0); }

}  // namespace troupe::nodes
