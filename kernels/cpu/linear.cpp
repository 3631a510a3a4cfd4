// The fully connected layer. Products use BLAS; tiny ones a loop of our own, because BLAS would spend their time on
// packing and dispatch. The shapes alone decide which, so that a run repeats bit for bit.

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cpu/blas.hpp"
#include "kernels/cpu/cpu_stream.hpp"
#include "kernels/cpu/small_product.hpp"

namespace troupe::kernels {
namespace {

/// The most weights that are transposed on the stack.
constexpr std::size_t max_small_weights = 1024;
/// Up to this many multiplications, the loop is at least as fast as BLAS.
constexpr std::size_t max_small_products = 8192;

bool is_small(std::size_t batch, std::size_t in, std::size_t out) {
  const std::size_t weights = in * out;
  return weights == 0 || (weights <= max_small_weights && batch <= max_small_products / weights);
}

}  // namespace

bool cpu_stream::multiplies_in_bf16(std::size_t /*in*/, std::size_t /*out*/) const { return false; }

void cpu_stream::round_to_bf16(std::size_t count, const float* x, std::uint16_t* rounded) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(x[i]);
    const std::uint32_t up = std::isnan(x[i]) ? 0x400000U : 0x7fffU + ((bits >> 16) & 1U);
    rounded[i] = static_cast<std::uint16_t>((std::isnan(x[i]) ? bits | up : bits + up) >> 16);
  }
}

bool cpu_stream::linear_forward(std::size_t batch, std::size_t in, std::size_t out, product_factor x,
                                product_factor weight, const float* bias, activation then, float* y,
                                std::byte* /*mask*/) {
  if (is_small(batch, in, out)) {
    float transposed[max_small_weights];
    transpose(out, in, weight.numbers, transposed);
    small_product(batch, out, in, {x.numbers, in, 1}, transposed, bias, y);
  } else {
    for (std::size_t b = 0; b < batch && bias != nullptr; ++b) std::copy_n(bias, out, y + b * out);
    blas_product(factor_form::plain, factor_form::transposed, batch, out, in, x.numbers, weight.numbers,
                 bias != nullptr ? 1.0F : 0.0F, y);
  }
  if (then == activation::relu) relu_forward(batch * out, y, y);
  return false;
}

void cpu_stream::linear_backward_parameters(std::size_t batch, std::size_t in, std::size_t out, product_factor x,
                                            product_factor grad_y, float* grad_weight, float* grad_bias) {
  if (grad_bias != nullptr) column_sums(batch, out, grad_y.numbers, grad_bias);
  if (is_small(batch, in, out))
    small_product(out, in, batch, {grad_y.numbers, 1, out}, x.numbers, nullptr, grad_weight);
  else
    blas_product(factor_form::transposed, factor_form::plain, out, in, batch, grad_y.numbers, x.numbers, 0.0F,
                 grad_weight);
}

bool cpu_stream::linear_backward_input(std::size_t batch, std::size_t in, std::size_t out, product_factor weight,
                                       product_factor grad_y, float* grad_x, const std::byte* /*mask*/) {
  if (is_small(batch, in, out))
    small_product(batch, in, out, {grad_y.numbers, out, 1}, weight.numbers, nullptr, grad_x);
  else
    blas_product(factor_form::plain, factor_form::plain, batch, in, out, grad_y.numbers, weight.numbers, 0.0F, grad_x);
  return false;
}

void cpu_stream::batched_product(const batched_product_shape& shape, const float* a, const float* b, float* product) {
  const auto [count, m, n, k, a_form, b_form] = shape;
  const bool is_plain = a_form == factor_form::plain;
  for (std::size_t i = 0; i < count; ++i, a += m * k, b += k * n, product += m * n) {
    if (!is_small(m, k, n)) {
      blas_product(a_form, b_form, m, n, k, a, b, 0.0F, product);
      continue;
    }
    float transposed[max_small_weights];
    if (b_form == factor_form::transposed) transpose(n, k, b, transposed);
    small_product(m, n, k, {a, is_plain ? k : 1, is_plain ? 1 : m}, b_form == factor_form::plain ? b : transposed,
                  nullptr, product);
  }
}

}  // namespace troupe::kernels
