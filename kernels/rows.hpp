// How the rows of a table lie in memory: as float32, or in 16 bits a number, which halves the table.
//
//   f16   IEEE 754 binary16: 11 significant bits, up to 65504; what is above becomes Inf
//   bf16  the upper half of a float32: 8 significant bits, and the range of a float32
//
// All arithmetic is in float32. A number is rounded when it is stored, once, to the nearest that its type has, ties to
// even.

#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

enum class row_dtype : std::uint8_t { f32, f16, bf16 };

/// Bytes of one number.
constexpr std::size_t size_of(row_dtype type) { return type == row_dtype::f32 ? 4 : 2; }

/// Where a table's numbers are, row after row without gaps, and how they are stored. Made from floats, an f32 table.
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

/// out[i] = the number at place i. May be called from any thread.
void decode(const_table_view from, std::size_t count, float* out);

/// Stores x[i] at place i. NaN stays NaN. May be called from any thread.
void encode(std::size_t count, const float* x, table_view to);

}  // namespace troupe::kernels
