// The header of a safetensors file: names, types, shapes and locations of its tensors.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace troupe::model {

enum class tensor_type : std::uint8_t {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  u16,
  i16,
  f16,
  bf16,
  u32,
  i32,
  f32,
  u64,
  i64,
  f64,
  other  ///< one that is not read here
};

/// Return the type's name in the file, e.g. F32, and its size in bytes. Require: it is not `other`.
std::string_view type_name(tensor_type type);
std::uint64_t type_size(tensor_type type);

/// Returns the type of that name; null if it is not read here.
std::optional<tensor_type> type_named(std::string_view name);

struct tensor_entry {
  tensor_type type = tensor_type::u8;
  /// The type's name if it is `other`, of which nothing is known: neither its size nor whether the tensor's bytes fit.
  std::string other_type = {};
  std::vector<std::uint64_t> shape;
  /// First byte and end, from the first byte after the header.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  /// Returns the type's name in the file.
  std::string_view type_text() const { return type == tensor_type::other ? other_type : type_name(type); }

  /// Returns the number of elements, saturated at the largest number.
  std::uint64_t count() const;
};

/// Limit of a header's JSON text.
constexpr std::uint64_t safetensors_header_max = 100'000'000;

/// "[2, 3]"
std::string shape_text(const std::vector<std::uint64_t>& shape);

struct safetensors_header {
  std::map<std::string, tensor_entry, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;
};

/// Parses a header's JSON text for `data_size` bytes of tensors. Refuses unknown keys, repeated keys, sizes that
/// overflow or do not fit the shape, and tensors that overlap, leave gaps or exceed the data. A tensor of a type that
/// is not read here is refused when it is read. Its memory is proportional to the text. Thread: any.
result<safetensors_header> parse_safetensors_header(std::string_view json, std::uint64_t data_size);

}  // namespace troupe::model
