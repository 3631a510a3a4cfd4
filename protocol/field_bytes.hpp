// The bytes of a message's fields, as frames of data links and contents of traces have them: numbers little-endian
// without gaps, a list as its length (u32) and its elements, a text likewise, an optional value behind a bool. Bulk
// bytes are kept apart: who derives from these says where.

#pragma once

#include <caf/load_inspector_base.hpp>
#include <caf/save_inspector_base.hpp>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

namespace troupe::protocol {

/// Writes them. Derived: `bulk(const blob&)`.
template <class Derived>
class field_saver : public caf::save_inspector_base<Derived> {
 public:
  static constexpr bool has_human_readable_format() { return false; }

  bool begin_object(caf::type_id_t, caf::string_view) { return true; }
  bool end_object() { return true; }
  bool begin_field(caf::string_view) { return true; }
  bool begin_field(caf::string_view name, bool is_present) {
    return static_cast<Derived*>(this)->begin_field(name) && value(is_present);
  }
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
    value(static_cast<std::uint32_t>(x.size()));
    append(x.data(), x.size());
    return true;
  }

  std::string fields;

 private:
  void append(const void* bytes, std::size_t size) { fields.append(static_cast<const char*>(bytes), size); }
};

/// Reads them back. Whatever the bytes are, nothing beyond them is read, and nothing is allocated that they do not
/// account for. Derived: `bulk(blob&)`, and `parts_left()`, how much there is for it.
template <class Derived>
class field_loader : public caf::load_inspector_base<Derived> {
 public:
  explicit field_loader(std::span<const std::byte> fields) : fields_(fields) {}

  static constexpr bool has_human_readable_format() { return false; }
  /// That loading failed is all that is told: CAF's errors need an actor system's types, which a reader of recordings
  /// does without.
  template <class... Ts>
  void emplace_error(Ts&&...) {}

  bool begin_object(caf::type_id_t, caf::string_view) { return true; }
  bool end_object() { return true; }
  bool begin_field(caf::string_view) { return true; }
  bool begin_field(caf::string_view, bool& is_present) { return value(is_present); }
  bool end_field() { return true; }
  bool begin_tuple(std::size_t) { return true; }
  bool end_tuple() { return true; }
  /// An element takes a byte at least, or a part.
  bool begin_sequence(std::size_t& size) {
    std::uint32_t count = 0;
    if (!value(count) || count > fields_.size() + parts_left()) return false;
    size = count;
    return true;
  }
  bool end_sequence() { return true; }

  template <class T>
  requires std::is_arithmetic_v<T>
  bool value(T& x) {
    if (fields_.size() < sizeof x) return false;
    if constexpr (std::is_same_v<T, bool>)
      x = fields_.front() != std::byte{0};
    else
      std::memcpy(&x, fields_.data(), sizeof x);
    fields_ = fields_.subspan(sizeof x);
    return true;
  }
  bool value(std::string& x) {
    std::uint32_t size = 0;
    if (!value(size) || size > fields_.size()) return false;
    x.assign(reinterpret_cast<const char*>(fields_.data()), size);
    fields_ = fields_.subspan(size);
    return true;
  }

  /// Whether nothing is left over.
  bool is_done() const { return fields_.empty() && parts_left() == 0; }

 private:
  std::size_t parts_left() const { return static_cast<const Derived*>(this)->parts_left(); }

  std::span<const std::byte> fields_;
};

}  // namespace troupe::protocol
