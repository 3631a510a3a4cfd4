// How the rows of a table are stored: as float32, or with 16 bits per number, which halves the table.
//
//   f16   IEEE 754 binary16: 11 significant bits, up to 65504; larger numbers become Inf
//   bf16  the upper half of a float32: 8 significant bits, and the range of a float32
//
// All arithmetic is in float32. A number is rounded once, when it is stored, to the nearest, ties to even.

#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

enum class row_dtype : std::uint8_t { f32, f16, bf16 };

/// Bytes of one number.
constexpr std::size_t size_of(row_dtype type) { return type == row_dtype::f32 ? 4 : 2; }

/// The numbers of a table, rows without gaps, and their type. From a float pointer: an f32 table.
struct table_view {
  void* data = nullptr;
  row_dtype type = row_dtype::f32;

  table_view(float* numbers) : data(numbers) {}  // NOLINT(google-explicit-constructor)
  table_view(void* numbers, row_dtype stored_as) : data(numbers), type(stored_as) {}
};

/// The same for reading.
struct const_table_view {
  const void* data = nullptr;
  row_dtype type = row_dtype::f32;

  const_table_view(const float* numbers) : data(numbers) {}  // NOLINT(google-explicit-constructor)
  const_table_view(const void* numbers, row_dtype stored_as) : data(numbers), type(stored_as) {}
};

/// out[i] = number i of `from`. Thread: any.
void decode(const_table_view from, std::size_t count, float* out);

/// Stores x[i] as number i of `to`. NaN stays NaN. Thread: any.
void encode(std::size_t count, const float* x, table_view to);

}  // namespace troupe::kernels
