// What a message holds, as a trace keeps it: how many bulk bytes, and a digest of each of its parts.

#pragma once

#include <caf/save_inspector_base.hpp>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "protocol/inspect.hpp"
#include "protocol/messages.hpp"
#include "trace/content.hpp"

namespace troupe {

/// Messages that carry tensors or lists of numbers.
template <class Message>
constexpr bool has_bulk = (std::is_same_v<Message, lookup> || std::is_same_v<Message, rows> ||
                           std::is_same_v<Message, gradient> || std::is_same_v<Message, reduce> ||
                           std::is_same_v<Message, reduced> || std::is_same_v<Message, bucket_share> ||
                           std::is_same_v<Message, bucket_sum> || std::is_same_v<Message, group_devices> ||
                           std::is_same_v<Message, squared_norm> || std::is_same_v<Message, module_state> ||
                           std::is_same_v<Message, load_state_dict> || std::is_same_v<Message, epoch_report> ||
                           std::is_same_v<Message, evaluation> || std::is_same_v<Message, save_dense> ||
                           std::is_same_v<Message, trained>);

/// Adds up the sizes of blobs, and notes whether any is in a device's memory.
class bulk_counter : public caf::save_inspector_base<bulk_counter> {
 public:
  static constexpr bool has_human_readable_format() { return false; }

  bool begin_object(caf::type_id_t, caf::string_view) { return true; }
  bool end_object() { return true; }
  bool begin_field(caf::string_view) { return true; }
  bool begin_field(caf::string_view, bool) { return true; }
  bool end_field() { return true; }
  bool begin_tuple(std::size_t) { return true; }
  bool end_tuple() { return true; }
  bool begin_sequence(std::size_t) { return true; }
  bool end_sequence() { return true; }
  template <class T>
  bool value(const T&) {
    return true;
  }
  bool skip(const header&) { return true; }
  bool bulk(const blob& x) {
    bytes += x.size();
    on_device = on_device || x.device() != nullptr;
    return true;
  }

  std::uint64_t bytes = 0;
  bool on_device = false;
};

/// Whether any of a message's numbers are in a device's memory, where others may soon take their place.
template <class Message>
bool is_on_device(const Message& message) {
  bulk_counter counter;
  if constexpr (has_bulk<Message>) (void)counter.apply(message);
  return counter.on_device;
}

/// What a message weighs: its bulk bytes, and the structure itself.
template <class Message>
std::uint64_t weight_of(const Message& message) {
  std::uint64_t bytes = sizeof(Message);
  if constexpr (has_bulk<Message>) {
    bulk_counter counter;
    (void)counter.apply(message);
    bytes += counter.bytes;
  }
  return bytes;
}

/// Collects the parts of a message with their names, and all else as bytes in the order of the inspect functions.
class content_writer : public caf::save_inspector_base<content_writer> {
 public:
  /// `with_bytes`: keep the parts themselves.
  content_writer(trace::content& to, bool with_bytes) : to_(to), with_bytes_(with_bytes) {}

  static constexpr bool has_human_readable_format() { return false; }

  bool begin_object(caf::type_id_t, caf::string_view) { return enter_element(); }
  bool end_object() { return leave_element(); }
  bool begin_field(caf::string_view name);
  bool begin_field(caf::string_view name, bool is_present) { return begin_field(name) && value(is_present); }
  bool end_field();
  bool begin_tuple(std::size_t) { return enter_element(); }
  bool end_tuple() { return leave_element(); }
  bool begin_sequence(std::size_t size);
  bool end_sequence();

  template <class T>
  requires std::is_arithmetic_v<T>
  bool value(T x) {
    append(&x, sizeof x);
    return true;
  }
  bool value(caf::string_view x);
  bool skip(const header&) { return true; }
  bool whole(const tensor& x);
  bool bulk(const blob& x);

  /// Everything that is in no part.
  std::string fields;

 private:
  /// A field, or an element of a list of them.
  struct level {
    std::string name;
    bool is_list = false;
    std::size_t next = 0;
  };

  bool enter_element();
  bool leave_element();
  std::string path() const;
  void add_part(const blob& numbers, std::string type, std::uint64_t rows, std::uint64_t cols);
  void append(const void* bytes, std::size_t size) { fields.append(static_cast<const char*>(bytes), size); }

  trace::content& to_;
  const bool with_bytes_;
  std::vector<level> levels_;
};

/// Actors are no content: their handles differ from run to run.
inline bool inspect(content_writer&, caf::strong_actor_ptr&) { return true; }

/// Digests of a message's parts and of the rest of it, without its header; with its bytes if asked for.
template <class Message>
trace::content content_of(const Message& message, bool with_bytes);

/// The digest of a content's fields.
std::uint64_t digest_of_fields(const std::string& fields);

template <class Message>
trace::content content_of(const Message& message, bool with_bytes) {
  trace::content made;
  made.id = id_of(message.head);
  made.type = caf::type_id_v<Message>;
  content_writer writer(made, with_bytes);
  (void)writer.apply(const_cast<Message&>(message));
  made.fields_digest = digest_of_fields(writer.fields);
  if (with_bytes) made.fields = std::move(writer.fields);
  return made;
}

}  // namespace troupe
