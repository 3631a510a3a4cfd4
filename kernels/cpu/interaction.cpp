// Pairwise dot products, sample by sample. Forward: the vectors X [n, dim] of a sample give X X^T, of which the lower
// triangle is stored. Backward: the gradients of the dots form a symmetric matrix S with a zero diagonal, and S X is
// the gradient. Both products are too small for BLAS and usually fit the L1 cache.

#include <algorithm>
#include <vector>

#include "kernels/cpu/cpu_stream.hpp"
#include "kernels/cpu/small_product.hpp"

namespace troupe::kernels {
namespace {

/// Pads columns to whole vectors: a partial vector takes as long as a full one.
std::size_t padded(std::size_t columns) {
  constexpr std::size_t widest_vector = 16;
  return (columns + widest_vector - 1) / widest_vector * widest_vector;
}

/// Copies row `row` of each matrix, one after the other.
void collect(std::span<const row_matrix<const float>> x, std::size_t row, std::size_t dim, float* to) {
  for (const auto& from : x) {
    std::copy_n(from.data + row * from.stride, dim, to);
    to += dim;
  }
}

}  // namespace

void cpu_stream::pairwise_dots(std::size_t batch, std::size_t dim, std::span<const row_matrix<const float>> x,
                               row_matrix<float> dots) {
  const std::size_t n = x.size();
  const std::size_t columns = padded(n);
  std::vector<float> vectors(columns * dim);  // rows beyond n stay zero
  std::vector<float> transposed(dim * columns);
  std::vector<float> products(n * columns);
  for (std::size_t b = 0; b < batch; ++b) {
    collect(x, b, dim, vectors.data());
    transpose(columns, dim, vectors.data(), transposed.data());
    small_product(n, columns, dim, {vectors.data(), dim, 1}, transposed.data(), nullptr, products.data());
    float* to = dots.data + b * dots.stride;
    for (std::size_t i = 1; i < n; ++i) to = std::copy_n(products.data() + i * columns, i, to);
  }
}

void cpu_stream::pairwise_dots_backward(std::size_t batch, std::size_t dim, std::span<const row_matrix<const float>> x,
                                        row_matrix<const float> grad_dots, std::span<const row_matrix<float>> grad_x) {
  const std::size_t n = x.size();
  const std::size_t columns = padded(dim);
  std::vector<float> vectors(n * columns);  // columns beyond dim stay zero
  std::vector<float> factors(n * n);        // the diagonal stays zero
  std::vector<float> products(n * columns);
  for (std::size_t b = 0; b < batch; ++b) {
    const float* from = grad_dots.data + b * grad_dots.stride;
    for (std::size_t i = 0; i < n; ++i) {
      std::copy_n(x[i].data + b * x[i].stride, dim, vectors.data() + i * columns);
      for (std::size_t j = 0; j < i; ++j) factors[i * n + j] = factors[j * n + i] = *from++;
    }
    small_product(n, columns, n, {factors.data(), n, 1}, vectors.data(), nullptr, products.data());
    for (std::size_t i = 0; i < n; ++i)
      std::copy_n(products.data() + i * columns, dim, grad_x[i].data + b * grad_x[i].stride);
  }
}

}  // namespace troupe::kernels
