// Element by element and across ranks: ReLU, the ordered sum of an allreduce, the search for NaN and Inf, norms.
// Functions may be called from any thread on disjoint outputs.

#pragma once

#include <cstddef>
#include <span>

namespace troupe::kernels {

/// y = max(x, 0), NaN kept; y may be x.
void relu_forward(std::size_t count, const float* x, float* y);

/// grad_x = y > 0 ? grad_y : 0, where y is the layer's output; grad_x may be grad_y.
void relu_backward(std::size_t count, const float* y, const float* grad_y, float* grad_x);

/// out = scale * (((in[0] + in[1]) + in[2]) + ...): the order of ranks fixes the bits. There is at least
/// one input; out may be one of them.
void sum_in_rank_order(std::span<const float* const> in, std::size_t count, float scale, float* out);

/// The sum of squares, in double: partial sum j of eight takes x[j], x[j+8], x[j+16], ... in this order, and they are
/// added as ((s0+s4) + (s2+s6)) + ((s1+s5) + (s3+s7)), whatever the width of a vector. NaN or Inf if x has any.
double squared_norm(std::size_t count, const float* x);

/// The position of the first NaN or Inf, or `count` if there is none.
std::size_t find_non_finite(std::size_t count, const float* x);

}  // namespace troupe::kernels
