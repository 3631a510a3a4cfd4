// Makes a message again of what a trace in the mode `payload` kept of it.

#pragma once

#include <caf/actor_control_block.hpp>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "protocol/describe.hpp"
#include "protocol/field_bytes.hpp"
#include "protocol/header.hpp"
#include "trace/content.hpp"

namespace troupe::protocol {

/// The one that `name_of` calls so; nothing if there is none.
std::optional<msg::dtype> dtype_named(std::string_view name);

/// Reads what `content_writer` wrote, in the same order. The header and handles of actors are left as they are: a trace
/// does not hold them.
class content_reader : public field_loader<content_reader> {
 public:
  /// `from` must outlive it.
  explicit content_reader(const trace::content& from)
      : field_loader(std::as_bytes(std::span(from.fields))), parts_(from.parts) {}

  bool skip(const msg::header&) { return true; }
  bool whole(msg::tensor& x);
  bool bulk(msg::blob& x);
  std::size_t parts_left() const { return parts_.size(); }

 private:
  std::span<const trace::content_part> parts_;
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

}  // namespace troupe::protocol
