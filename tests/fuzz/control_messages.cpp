// Every message type, as CAF's binary_deserializer reads it from a control connection: a message that has been read
// must be written so that it is read as the same again. The first two bytes of an input choose the type.
//
// Only a peer that has proved the run's token can send these. CAF's own parts are omitted:
//   - its protocol (BASP), the list of types before a message's content, and its own message types;
//   - binary_deserializer::begin_sequence, which shifts by more than 31 bits if a length has more than five bytes:
//     undefined behaviour in C++, harmless in compiled code, and not ours to fix. In the preset `fuzz` CAF is not
//     instrumented; for `asan-ubsan` ubsan_suppressions.txt names it.
// Each element of a list takes at least one byte, so a false length ends with the input.

#include <caf/detail/meta_object.hpp>

#include "tests/fuzz/actors.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/protocol/samples.hpp"

namespace troupe::fuzz::control_messages_target {

using content = caf::binary_serializer::container_type;

constexpr caf::type_id_t first = caf::id_block::troupe::begin;
constexpr std::uint16_t types = caf::id_block::troupe::end - first;

/// A value of a type given by its id.
class value {
 public:
  explicit value(caf::type_id_t id)
      : type_(*caf::detail::global_meta_object(id)),
        memory_(std::make_unique<std::max_align_t[]>(type_.padded_size / sizeof(std::max_align_t) + 1)) {
    type_.default_construct(memory_.get());
  }
  ~value() { type_.destroy(memory_.get()); }
  value(const value&) = delete;
  value& operator=(const value&) = delete;

  bool load(std::span<const std::byte> all) {
    caf::binary_deserializer source(the_system(), all.data(), all.size());
    return type_.load_binary(source, memory_.get());
  }

  content save() const {
    content out;
    caf::binary_serializer sink(the_system(), out);
    must(type_.save_binary(sink, memory_.get()), "a message cannot be written");
    return out;
  }

 private:
  const caf::detail::meta_object& type_;
  std::unique_ptr<std::max_align_t[]> memory_;
};

std::vector<std::pair<std::string, bytes>> seeds() {
  the_system();
  std::vector<std::pair<std::string, bytes>> all;
  const auto add = [&]<class T>(std::type_identity<T>) {
    content out;
    caf::binary_serializer sink(the_system(), out);
    must(sink.apply(protocol::sample_maker(protocol::nobody).template make<T>()), "a seed cannot be written");
    const auto number = static_cast<std::uint16_t>(caf::type_id_v<T> - first);
    bytes one{static_cast<std::byte>(number & 0xff), static_cast<std::byte>(number >> 8)};
    for (const caf::byte each : out) one.push_back(static_cast<std::byte>(each));
    all.emplace_back(protocol::message_name_v<T>, std::move(one));
  };
  [&]<class... T>(boost::mp11::mp_list<T...>) { (add(std::type_identity<T>()), ...); }(protocol::message_types());
  return all;
}

void run(std::span<const std::byte> given) {
  the_system();
  input from(given);
  const auto type = static_cast<caf::type_id_t>(first + from.number<std::uint16_t>() % types);
  value read(type);
  if (!read.load(from.rest())) return;
  const content written = read.save();
  value again(type);
  must(again.load(std::as_bytes(std::span(written))), "a message is written as none");
  must(again.save() == written, "a message is written as another one");
}

}  // namespace troupe::fuzz::control_messages_target

TROUPE_FUZZ_TARGET(control_messages)
