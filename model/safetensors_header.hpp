// The header of a safetensors file: names, types, shapes and locations of its tensors.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/result.hpp"

namespace troupe::model {

struct tensor_entry {
  std::string type_text;  ///< the type's name in the file
  /// Null: an unknown type, whose size, and so whether the tensor's bytes fit, is unknown.
  std::optional<dtype> type;
  std::vector<std::uint64_t> shape;
  /// First byte and end, counted from the first byte after the header.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

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
/// overflow or do not fit the shape, and tensors that overlap, leave gaps or exceed the data. A tensor of an unknown
/// type is refused only when it is read. Memory use is proportional to the text. Thread: any.
result<safetensors_header> parse_safetensors_header(std::string_view json, std::uint64_t data_size);

}  // namespace troupe::model
