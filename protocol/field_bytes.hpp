// The bytes of a message's fields in data link frames and trace contents. Numbers are little-endian without padding. A
// list or string is its length (u32) and then its elements. A bool before an optional value says whether there is one.
// The derived class stores bulk bytes separately.

#pragma once

#include <caf/load_inspector_base.hpp>
#include <caf/save_inspector_base.hpp>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

namespace troupe::protocol {

/// Writes the fields. The derived class provides `bulk(const blob&)`.
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

/// Reads the fields back. Never reads beyond the given bytes, whatever they are, and allocates in proportion to them.
/// The derived class provides `bulk(blob&)` and `parts_left()`, the number of bulk parts still unread.
template <class Derived>
class field_loader : public caf::load_inspector_base<Derived> {
 public:
  explicit field_loader(std::span<const std::byte> fields) : fields_(fields) {}

  static constexpr bool has_human_readable_format() { return false; }
  /// Reports only that loading failed: CAF's errors need an actor system's types, and a reader of recordings has no
  /// actor system.
  template <class... Ts>
  void emplace_error(Ts&&...) {}

  bool begin_object(caf::type_id_t, caf::string_view) { return true; }
  bool end_object() { return true; }
  bool begin_field(caf::string_view) { return true; }
  bool begin_field(caf::string_view, bool& is_present) { return value(is_present); }
  bool end_field() { return true; }
  bool begin_tuple(std::size_t) { return true; }
  bool end_tuple() { return true; }
  /// Refuses a length above the bytes and bulk parts that are left: each element has at least one of them.
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

  /// Returns whether all bytes and parts have been read.
  bool is_done() const { return fields_.empty() && parts_left() == 0; }

 private:
  std::size_t parts_left() const { return static_cast<const Derived*>(this)->parts_left(); }

  std::span<const std::byte> fields_;
};

}  // namespace troupe::protocol
