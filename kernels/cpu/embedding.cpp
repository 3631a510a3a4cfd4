// Tables whose rows are indexed by ids among a network's numbers.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_stream.hpp"

namespace troupe::kernels {
namespace {

bool is_row(float id, std::size_t rows) { return id >= 0 && id < static_cast<float>(rows) && std::trunc(id) == id; }

}  // namespace

void cpu_stream::embedding_forward(std::size_t count, std::size_t rows, std::size_t dim, const float* ids,
                                   const float* table, float* y) {
  for (std::size_t i = 0; i < count; ++i) {
    if (is_row(ids[i], rows))
      std::copy_n(table + static_cast<std::size_t>(ids[i]) * dim, dim, y + i * dim);
    else
      std::fill_n(y + i * dim, dim, std::numeric_limits<float>::quiet_NaN());
  }
}

void cpu_stream::embedding_backward(std::size_t count, std::size_t rows, std::size_t dim, const float* ids,
                                    const float* grad_y, float* grad_table) {
  std::fill_n(grad_table, rows * dim, 0.0F);
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_row(ids[i], rows)) continue;
    float* const sum = grad_table + static_cast<std::size_t>(ids[i]) * dim;
    for (std::size_t c = 0; c < dim; ++c) sum[c] += grad_y[i * dim + c];
  }
}

}  // namespace troupe::kernels
