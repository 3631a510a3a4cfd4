// Functions of tensors in a context, with their gradients: what joins the parts of a model. Gradients go to what the
// context has computed; data have none. All throw `error` if shapes or types do not fit.

#pragma once

#include <array>
#include <concepts>
#include <span>

#include "troupe/context.hpp"
#include "troupe/tensor.hpp"

namespace troupe {

/// The sum, element by element, of two tensors of one shape, of float32 or float64.
tensor add(context& in, const tensor& a, const tensor& b);
/// The product, element by element, of two tensors of one shape, of float32 or float64.
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

/// Tensors of float32 side by side, along the last dimension; in the others they are alike.
template <std::same_as<tensor>... More>
tensor concat(context& in, const tensor& first, const More&... more) {
  const std::array<const tensor*, 1 + sizeof...(More)> parts = {&first, &more...};
  return detail::concat(in, parts);
}

/// The dot products of rows: of each pair of the matrices [n, d], of float32, a column of [n, pairs]. The pairs are
/// (1, 0), (2, 0), (2, 1), (3, 0), ...: of two matrices, as in a two-tower model, their only one; of many, as in DLRM.
template <std::same_as<tensor>... More>
tensor pairwise_dots(context& in, const tensor& first, const tensor& second, const More&... more) {
  const std::array<const tensor*, 2 + sizeof...(More)> parts = {&first, &second, &more...};
  return detail::pairwise_dots(in, parts);
}

}  // namespace troupe
