// How a message travels over a data link: as one frame body whose bulk bytes stay where they are when it is sent, and
// are pointed at where they lie when it has come.
//
//   0   u64  request: the answer names it; 0: none
//   8   u32  the number of the actor that the message is for; in an answer, of the one that answers
//   12  u16  type: the message's type id, part of the schema that both sides have compared
//   14  u16  0
//   16  u32  bytes of the fields
//   20  u32  number of blobs
//   24  u64  size of each blob
//       the fields, in the order of their inspect function, little-endian without gaps; a list is its length (u32) and
//       its elements, a text likewise, a blob is nothing
//       each blob, at the next multiple of 64 bytes
//
// All numbers are little-endian.

#pragma once

#include <caf/expected.hpp>
#include <caf/load_inspector_base.hpp>
#include <caf/message.hpp>
#include <caf/save_inspector_base.hpp>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "protocol/blob.hpp"
#include "protocol/header.hpp"

namespace troupe {

/// Where a message belongs on a link.
struct envelope {
  std::uint64_t request = 0;
  std::uint32_t actor = 0;
};

/// The parts of the frame body for `content`, a single message of the types that travel over data links. Null for
/// another type: it belongs on the control connection.
std::optional<std::vector<blob>> to_frame(const envelope& head, const caf::message& content);

/// The message in a frame body; its blobs share `memory`. Whatever the bytes are, nothing beyond them is read, and
/// nothing is allocated that they do not account for.
caf::expected<std::pair<envelope, caf::message>> from_frame(const blob& body);

/// Type and header of a message that travels over data links.
std::optional<std::pair<caf::type_id_t, header>> head_of(const caf::message& content);

/// An actor's refusal as an answer, and back; errors of other kinds become errc::exception with the same words.
std::vector<blob> to_failure_frame(const envelope& head, const caf::error& failure);
caf::expected<std::pair<envelope, caf::error>> from_failure_frame(const blob& body);

/// Writes fields in the form above, and collects blobs.
class field_writer : public caf::save_inspector_base<field_writer> {
 public:
  static constexpr bool has_human_readable_format() { return false; }

  bool begin_object(caf::type_id_t, caf::string_view) { return true; }
  bool end_object() { return true; }
  bool begin_field(caf::string_view) { return true; }
  bool begin_field(caf::string_view, bool is_present) { return value(is_present); }
  bool end_field() { return true; }
  bool begin_tuple(std::size_t) { return true; }
  bool end_tuple() { return true; }
  bool begin_sequence(std::size_t size) { return value(static_cast<std::uint32_t>(size)); }
  bool end_sequence() { return true; }

  template <class T>
  requires std::is_arithmetic_v<T>
  bool value(T x) {
    append(&x, sizeof x);
    return true;
  }
  bool value(caf::string_view x) {
    begin_sequence(x.size());
    append(x.data(), x.size());
    return true;
  }
  bool bulk(const blob& x) {
    blobs.push_back(x.on_host());
    return true;
  }

  std::string fields;
  std::vector<blob> blobs;

 private:
  void append(const void* bytes, std::size_t size) { fields.append(static_cast<const char*>(bytes), size); }
};

/// Reads them back.
class field_reader : public caf::load_inspector_base<field_reader> {
 public:
  field_reader(std::span<const std::byte> fields, std::span<const blob> blobs) : fields_(fields), blobs_(blobs) {}

  static constexpr bool has_human_readable_format() { return false; }

  bool begin_object(caf::type_id_t, caf::string_view) { return true; }
  bool end_object() { return true; }
  bool begin_field(caf::string_view) { return true; }
  bool begin_field(caf::string_view, bool& is_present) { return value(is_present); }
  bool end_field() { return true; }
  bool begin_tuple(std::size_t) { return true; }
  bool end_tuple() { return true; }
  /// An element takes a byte at least, or a blob.
  bool begin_sequence(std::size_t& size);
  bool end_sequence() { return true; }

  template <class T>
  requires std::is_arithmetic_v<T>
  bool value(T& x) {
    if (fields_.size() < sizeof x) return too_short();
    if constexpr (std::is_same_v<T, bool>) {
      x = fields_.front() != std::byte{0};
    } else {
      std::memcpy(&x, fields_.data(), sizeof x);
    }
    fields_ = fields_.subspan(sizeof x);
    return true;
  }
  bool value(std::string& x);
  bool bulk(blob& x);

  /// True if nothing is left over.
  bool at_end() const { return fields_.empty() && blobs_.empty(); }

 private:
  bool too_short();

  std::span<const std::byte> fields_;
  std::span<const blob> blobs_;
};

}  // namespace troupe
