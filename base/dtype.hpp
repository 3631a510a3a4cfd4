// The number types of tensors: in memory, in messages and in files.

#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <type_traits>

namespace troupe {

/// The library's tensors use the first three types, messages the first six, with these values; f16 and bf16 are for
/// rows of tables. The others occur in files only.
enum class dtype : std::uint8_t {
  f32,
  f64,
  i64,
  u64,
  f16,
  bf16,
  u32,
  i32,
  u16,
  i16,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  boolean
};

namespace detail {

struct dtype_row {
  std::size_t bytes;
  std::string_view name;          ///< as in PyTorch
  std::string_view name_in_file;  ///< in safetensors files
};

/// By value.
inline constexpr dtype_row dtypes[] = {{4, "float32", "F32"},
                                       {8, "float64", "F64"},
                                       {8, "int64", "I64"},
                                       {8, "uint64", "U64"},
                                       {2, "float16", "F16"},
                                       {2, "bfloat16", "BF16"},
                                       {4, "uint32", "U32"},
                                       {4, "int32", "I32"},
                                       {2, "uint16", "U16"},
                                       {2, "int16", "I16"},
                                       {1, "uint8", "U8"},
                                       {1, "int8", "I8"},
                                       {1, "float8_e5m2", "F8_E5M2"},
                                       {1, "float8_e4m3fn", "F8_E4M3"},
                                       {1, "bool", "BOOL"}};

}  // namespace detail

/// The size of one number in bytes.
constexpr std::size_t size_of(dtype x) { return detail::dtypes[static_cast<std::size_t>(x)].bytes; }

/// Returns PyTorch's name: `float32`.
constexpr std::string_view name_of(dtype x) { return detail::dtypes[static_cast<std::size_t>(x)].name; }

/// Returns the name in safetensors files: `F32`.
constexpr std::string_view name_in_file(dtype x) { return detail::dtypes[static_cast<std::size_t>(x)].name_in_file; }

/// Returns the type with that name among `names`, or null.
constexpr std::optional<dtype> dtype_named(std::string_view name, std::string_view (*names)(dtype) = name_of) {
  for (std::size_t i = 0; i < std::size(detail::dtypes); ++i)
    if (names(static_cast<dtype>(i)) == name) return static_cast<dtype>(i);
  return {};
}

/// Whether the library's tensors, and those in messages, can have numbers of this type.
constexpr bool is_tensor_type(dtype x) { return x <= dtype::i64; }
constexpr bool is_message_type(dtype x) { return x <= dtype::bf16; }

template <class T>
concept tensor_number = std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::int64_t>;

template <class T>
constexpr dtype dtype_of() {
  static_assert(tensor_number<T> || std::is_same_v<T, std::uint64_t>,
                "tensors hold float, double or std::int64_t; those of messages std::uint64_t, too");
  return std::is_same_v<T, float>          ? dtype::f32
         : std::is_same_v<T, double>       ? dtype::f64
         : std::is_same_v<T, std::int64_t> ? dtype::i64
                                           : dtype::u64;
}

}  // namespace troupe
