// A link whose peer sends arbitrary frames about its shared memory: the link must lose the peer or continue, and must
// not deliver bytes from outside that memory.
//
// The first byte of an input says whether the peer has offered an existing memory; a sequence of frames follows
// (scripted_link.hpp).

#include "cluster/links/shared_memory_link.hpp"
#include "base/digest.hpp"

#include "cluster/links/shared_memory.hpp"
#include "tests/fuzz/scripted_link.hpp"

namespace troupe::fuzz::shared_memory_link_target {

constexpr std::size_t memory_bytes = 4096;
constexpr std::uint64_t frame_bytes_max = 4000;
constexpr std::size_t frames_max = 64;

enum : std::uint8_t { offer_kind = 253, taken_kind, shared_kind };

std::uint8_t as_in_inputs(std::uint8_t kind) { return kind - links::link::first_user_kind; }

links::shared_memory_writer& memory() {
  static const auto made = links::shared_memory_writer::make(memory_bytes);
  return *made;
}

bytes offer(const links::shared_memory_name& name) {
  bytes one;
  links::append_number(one, name.process);
  links::append_number(one, name.file);
  links::append(one, name.secret);
  return one;
}

bytes announcement(std::uint8_t kind, std::uint32_t slot, std::uint64_t offset, std::uint64_t size) {
  bytes one(4);
  links::put_number(one, 0, kind);
  links::append_number(one, slot);
  links::append_number(one, offset);
  links::append_number(one, size);
  return one;
}

bytes after(bool is_offered, const std::vector<bytes>& frames) {
  bytes all = {std::byte{is_offered}};
  for (const bytes& one : frames) links::append(all, one);
  return all;
}

std::vector<std::pair<std::string, bytes>> seeds() {
  const auto shared = [](const bytes& body) { return framed(as_in_inputs(shared_kind), body); };
  const bytes whole = shared(announcement(2, 0, 0, frame_bytes_max));
  const bytes small = framed(0, bytes(3));
  return {{"in_turn", after(true, {small, whole, small, shared(announcement(252, 1023, 64, 1))})},
          {"same_again", after(true, {whole, whole})},
          {"beyond_the_end", after(true, {shared(announcement(2, 0, 128, 3969))})},
          {"not_aligned", after(true, {shared(announcement(2, 0, 1, 8))})},
          {"kind_of_its_own", after(true, {shared(announcement(255, 0, 0, 24))})},
          {"without_offer", after(false, {whole})},
          {"second_offer", after(true, {framed(as_in_inputs(offer_kind), offer({}))})},
          {"taken_unasked", after(false, {framed(as_in_inputs(taken_kind), bytes()), small})},
          {"no_such_memory", after(false, {framed(as_in_inputs(offer_kind), offer({1, 0, {}})), whole})}};
}

void run(std::span<const std::byte> given) {
  input from(given);
  const auto wire = std::make_shared<scripted_link>();
  const auto all = links::with_shared_memory(wire, {.frame_bytes_max = frame_bytes_max}, false);
  int ends = 0;
  all->start({[&ends](links::received_frame&& frame) {
                must(ends == 0, "a frame after the end");
                must(frame.size <= UINT16_MAX && frame.kind >= links::link::first_user_kind && frame.kind < offer_kind,
                     "a frame that no peer could have sent");
                digest_of(std::span(frame.memory.get(), frame.size));
              },
              [&ends](const fault* why) {
                must(why != nullptr, "a peer that errs has said goodbye");
                ++ends;
              }});
  if (from.byte() % 2 == 1) wire->receive(offer_kind, offer(memory().name()));
  for (std::size_t i = 0; i < frames_max && !from.empty() && !wire->closed(); ++i) {
    const auto [kind, body] = scripted_frame(from);
    if (kind >= links::link::first_user_kind) wire->receive(kind, body);
  }
  wire->forget();
  must(ends == (wire->closed() ? 1 : 0), "a link that is closed without a word");
}

}  // namespace troupe::fuzz::shared_memory_link_target

TROUPE_FUZZ_TARGET(shared_memory_link)
