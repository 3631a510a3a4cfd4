// Products of tiny matrices, and their transposes and column sums, where BLAS spends most time on packing and dispatch.
// Thread: any, on disjoint outputs.

#pragma once

#include <cstddef>

namespace troupe::kernels {

/// The left factor of a product: element (row, k) is data[row * row_stride + k * k_stride].
struct left_factor {
  const float* data;
  std::size_t row_stride;
  std::size_t k_stride;
};

/// c [rows, columns] = start + a b for row-major b [depth, columns], each element summed over k in order. `start` is
/// one row, added to every row of c, or null for zeros.
void small_product(std::size_t rows, std::size_t columns, std::size_t depth, left_factor a, const float* b,
                   const float* start, float* c);

/// out [columns, rows] = the transpose of in [rows, columns].
void transpose(std::size_t rows, std::size_t columns, const float* in, float* out);

/// sums[j] = (x[0][j] + x[1][j]) + ..., in row order; zeros if there are no rows.
void column_sums(std::size_t rows, std::size_t columns, const float* x, float* sums);

}  // namespace troupe::kernels
