// The fully connected layer. Products use BLAS, tiny ones a loop of our own, because BLAS spends their time on packing
// and dispatch. Only the shapes decide which, so that a run repeats bit for bit.

#include <algorithm>

#include "kernels/cpu/blas.hpp"
#include "kernels/cpu/cpu_stream.hpp"
#include "kernels/cpu/small_product.hpp"

namespace troupe::kernels {
namespace {

/// Most weights that are transposed on the stack.
constexpr std::size_t max_small_weights = 1024;
/// Up to this many multiplications the loop is at least as fast as BLAS.
constexpr std::size_t max_small_products = 8192;

bool is_small(std::size_t batch, std::size_t in, std::size_t out) {
  const std::size_t weights = in * out;
  return weights == 0 || (weights <= max_small_weights && batch <= max_small_products / weights);
}

}  // namespace

void cpu_stream::linear_forward(std::size_t batch, std::size_t in, std::size_t out, const float* x, const float* weight,
                                const float* bias, activation then, float* y) {
  if (is_small(batch, in, out)) {
    float transposed[max_small_weights];
    transpose(out, in, weight, transposed);
    small_product(batch, out, in, {x, in, 1}, transposed, bias, y);
  } else {
    for (std::size_t b = 0; b < batch; ++b) std::copy_n(bias, out, y + b * out);
    blas_product(factor_form::plain, factor_form::transposed, batch, out, in, x, weight, 1.0F, y);
  }
  if (then == activation::relu) relu_forward(batch * out, y, y);
}

void cpu_stream::linear_backward_parameters(std::size_t batch, std::size_t in, std::size_t out, const float* x,
                                            const float* grad_y, float* grad_weight, float* grad_bias) {
  column_sums(batch, out, grad_y, grad_bias);
  if (is_small(batch, in, out))
    small_product(out, in, batch, {grad_y, 1, out}, x, nullptr, grad_weight);
  else
    blas_product(factor_form::transposed, factor_form::plain, out, in, batch, grad_y, x, 0.0F, grad_weight);
}

void cpu_stream::linear_backward_input(std::size_t batch, std::size_t in, std::size_t out, const float* weight,
                                       const float* grad_y, float* grad_x) {
  if (is_small(batch, in, out))
    small_product(batch, in, out, {grad_y, out, 1}, weight, nullptr, grad_x);
  else
    blas_product(factor_form::plain, factor_form::plain, batch, in, out, grad_y, weight, 0.0F, grad_x);
}

}  // namespace troupe::kernels
