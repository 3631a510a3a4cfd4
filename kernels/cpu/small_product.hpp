// Products of tiny matrices (and what goes with them), where BLAS spends its time on packing and dispatch rather than
// on multiplying.

#pragma once

#include <cstddef>

namespace troupe::kernels {

/// The left factor of a product: element (row, k) is data[row * row_stride + k * k_stride].
struct left_factor {
  const float* data;
  std::size_t row_stride;
  std::size_t k_stride;
};

/// c [rows, columns] = start + a b for row-major b [depth, columns], each element summed over k in order.
/// `start` is one row for all rows of c, or null for zeros.
void small_product(std::size_t rows, std::size_t columns, std::size_t depth, left_factor a, const float* b,
                   const float* start, float* c);

/// out [columns, rows] = in [rows, columns] transposed.
void transpose(std::size_t rows, std::size_t columns, const float* in, float* out);

/// sums[j] = (x[0][j] + x[1][j]) + ..., in row order; zeros without rows.
void column_sums(std::size_t rows, std::size_t columns, const float* x, float* sums);

}  // namespace troupe::kernels
