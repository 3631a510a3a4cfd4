// A message's contents as a trace keeps them: the size of its bulk bytes, and a digest of each part.

#pragma once

#include <caf/actor_control_block.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/digest.hpp"
#include "protocol/describe.hpp"
#include "protocol/field_bytes.hpp"
#include "protocol/header.hpp"
#include "protocol/type_ids.hpp"
#include "trace/record/content.hpp"

namespace troupe::protocol {

/// Returns whether any part of the message is in device memory, where the buffer may soon be reused.
template <class Message>
bool is_on_device(const Message& message) {
  bool found = false;
  for_each_blob(message, [&](const msg::blob& one) { found = found || one.device() != nullptr; });
  return found;
}

/// A message's size in bytes: its bulk bytes plus the struct itself.
template <class Message>
std::uint64_t weight_of(const Message& message) {
  std::uint64_t bytes = sizeof(Message);
  for_each_blob(message, [&](const msg::blob& one) { bytes += one.size(); });
  return bytes;
}

/// Collects a message's parts with their names; everything else except the header is written to `fields`.
class content_writer : public field_saver<content_writer> {
 public:
  /// `with_bytes`: keep the parts' bytes as well as their digests.
  content_writer(trace::content& to, bool with_bytes) : to_(to), with_bytes_(with_bytes) {}

  using field_saver::begin_field;
  bool begin_object(caf::type_id_t, caf::string_view) { return enter_element(); }
  bool end_object() { return leave_element(); }
  bool begin_field(caf::string_view name);
  bool end_field();
  bool begin_tuple(std::size_t) { return enter_element(); }
  bool end_tuple() { return leave_element(); }
  bool begin_sequence(std::size_t size);
  bool end_sequence();

  bool skip(const msg::header&) { return true; }
  bool whole(const msg::tensor& x);
  bool bulk(const msg::blob& x);

 private:
  /// A field, or an element of a list.
  struct level {
    std::string name;
    bool is_list = false;
    std::size_t next = 0;
  };

  bool enter_element();
  bool leave_element();
  std::string path() const;
  void add_part(const msg::blob& numbers, std::string type, std::uint64_t rows, std::uint64_t cols);

  trace::content& to_;
  const bool with_bytes_;
  std::vector<level> levels_;
};

/// Actor handles are not content: they differ from run to run.
inline bool inspect(content_writer&, caf::strong_actor_ptr&) { return true; }

/// Digests of a message's parts and of its fields, without the header; plus the bytes if `with_bytes`.
template <class Message>
trace::content content_of(const Message& message, bool with_bytes) {
  trace::content made;
  made.id = msg::id_of(message.head);
  made.type = caf::type_id_v<Message>;
  content_writer writer(made, with_bytes);
  if constexpr (traits_v<Message>.unrecorded > 0)
    (void)inspect_first<traits_v<Message>.unrecorded>(writer, const_cast<Message&>(message));
  else
    (void)writer.apply(const_cast<Message&>(message));
  made.fields_digest = digest_of(std::as_bytes(std::span(writer.fields)));
  if (with_bytes) made.fields = std::move(writer.fields);
  return made;
}

}  // namespace troupe::protocol
