// Makes a message again of what a trace in the mode `payload` kept of it.

#pragma once

#include <caf/load_inspector_base.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "protocol/inspect.hpp"
#include "protocol/messages.hpp"
#include "trace/content.hpp"

namespace troupe {

/// The one that `name_of` calls so; nothing if there is none.
std::optional<dtype> dtype_named(std::string_view name);

/// Reads what `content_writer` wrote, in the same order. The header and handles of actors are left as they are: a trace
/// does not hold them.
class content_reader : public caf::load_inspector_base<content_reader> {
 public:
  /// `from` must outlive it.
  explicit content_reader(const trace::content& from) : from_(from), fields_(from.fields) {}

  static constexpr bool has_human_readable_format() { return false; }

  bool begin_object(caf::type_id_t, caf::string_view) { return true; }
  bool end_object() { return true; }
  bool begin_field(caf::string_view) { return true; }
  bool begin_field(caf::string_view, bool& is_present) { return value(is_present); }
  bool end_field() { return true; }
  bool begin_tuple(std::size_t) { return true; }
  bool end_tuple() { return true; }
  bool begin_sequence(std::size_t& size);
  bool end_sequence() { return true; }

  template <class T>
  requires std::is_arithmetic_v<T>
  bool value(T& x) { return take(&x, sizeof x); }
  bool value(std::string& x);
  bool skip(const header&) { return true; }
  bool whole(tensor& x);
  bool bulk(blob& x);

  /// Whether nothing is left over.
  bool is_done() const { return fields_.empty() && next_part_ == from_.parts.size(); }

 private:
  bool take(void* to, std::size_t size);

  const trace::content& from_;
  std::string_view fields_;
  std::size_t next_part_ = 0;
};

inline bool inspect(content_reader&, caf::strong_actor_ptr&) { return true; }

/// Whether all of a message's bytes were kept, and are what the digests say.
bool is_kept(const trace::content& one);

/// Fills in all of `message` but header and handles. False: `from` is not what such a message holds.
template <class Message>
bool read_content_into(const trace::content& from, Message& message) {
  content_reader reader(from);
  return reader.apply(message) && reader.is_done();
}

}  // namespace troupe
