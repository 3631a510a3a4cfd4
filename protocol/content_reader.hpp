// Rebuilds a message from its contents in a trace of mode `payload`.

#pragma once

#include <caf/actor_control_block.hpp>
#include <cstddef>
#include <span>

#include "protocol/describe.hpp"
#include "protocol/field_bytes.hpp"
#include "protocol/header.hpp"
#include "trace/record/content.hpp"

namespace troupe::protocol {

/// Reads what `content_writer` wrote, in the same order. Leaves the header and actor handles unchanged: a trace does
/// not hold them.
class content_reader : public field_loader<content_reader> {
 public:
  /// Requires: `from` outlives the reader.
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

/// Returns whether all bytes of the message were kept and match their digests.
bool is_kept(const trace::content& one);

enum class reading : std::uint8_t { on, over, failed };

/// Fills in `message` except its header and handles. Returns false if `from` does not fit that message type; the fields
/// added since it was recorded may all be missing.
template <class Message>
bool read_content_into(const trace::content& from, Message& message) {
  content_reader reader(from);
  return [&]<class... Field>(boost::mp11::mp_list<Field...>) {
    std::size_t left = sizeof...(Field);
    const auto read = [&](auto& field) {
      if (left == traits_v<Message>.unrecorded) return reading::over;
      const bool begins_new = left-- == traits_v<Message>.added;
      return (begins_new && reader.is_done()) ? reading::over : reader.apply(field) ? reading::on : reading::failed;
    };
    reading now = reading::on;
    ((now = now == reading::on ? read(message.*Field::pointer) : now), ...);
    return now != reading::failed && reader.is_done();
  }(fields_of<Message>());
}

}  // namespace troupe::protocol
