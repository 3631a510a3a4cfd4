// Functions of tensors in a context, with their gradients: they join the parts of a model. Gradients pass to inputs
// that the context has computed; data get none. All throw `error` if shapes or types do not fit.

#pragma once

#include <array>
#include <concepts>
#include <span>

#include "troupe/context.hpp"
#include "troupe/tensor.hpp"

namespace troupe {

/// The element-wise sum of two tensors of one shape, of float32 or float64.
tensor add(context& in, const tensor& a, const tensor& b);
/// The element-wise product of two tensors of one shape, of float32 or float64.
tensor multiply(context& in, const tensor& a, const tensor& b);
/// x times a number; float32 or float64.
tensor scale(context& in, const tensor& x, double factor);

/// The sum and the mean of all elements: one number of float64, summed in double in order.
tensor sum(context& in, const tensor& x);
tensor mean(context& in, const tensor& x);

/// The same numbers in another shape.
tensor reshape(context& in, const tensor& x, const shape& lengths);

namespace detail {
tensor concat(context& in, std::span<const tensor* const> parts);
tensor pairwise_dots(context& in, std::span<const tensor* const> parts);
}  // namespace detail

/// Concatenates tensors of float32 along the last dimension; the other dimensions are equal.
template <std::same_as<tensor>... More>
tensor concat(context& in, const tensor& first, const More&... more) {
  const std::array<const tensor*, 1 + sizeof...(More)> parts = {&first, &more...};
  return detail::concat(in, parts);
}

/// The dot products of the rows of each pair of matrices [n, d], of float32: a column of [n, pairs] for each pair. The
/// pairs are (1, 0), (2, 0), (2, 1), (3, 0), ...: one pair for two matrices, as in a two-tower model; many, as in DLRM.
template <std::same_as<tensor>... More>
tensor pairwise_dots(context& in, const tensor& first, const tensor& second, const More&... more) {
  const std::array<const tensor*, 2 + sizeof...(More)> parts = {&first, &second, &more...};
  return detail::pairwise_dots(in, parts);
}

}  // namespace troupe
