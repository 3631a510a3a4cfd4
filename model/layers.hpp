// Makers of each kind's layers, for `make_layer` (layer_spec.hpp), which checks the shapes first.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/layer.hpp"
#include "model/layer_spec.hpp"
#include "model/tensor_parallel.hpp"

namespace troupe::model {

using layer_ptr = std::unique_ptr<const layer>;

/// Samples are [features]. `then`: also applied to the output; the passes back take the gradient of what is before it.
layer_ptr make_linear(const layer_spec& spec, const sample_shape& in,
                      kernels::activation then = kernels::activation::none);
/// A slice's part of a linear layer that is cut; `spec` and `in` are those of the slice.
layer_ptr make_linear_slice(const layer_spec& spec, const sample_shape& in, layer_cut cut,
                            kernels::activation then = kernels::activation::none);
layer_ptr make_low_rank_cross(const layer_spec& spec, const sample_shape& in);
layer_ptr make_layer_norm(const layer_spec& spec, const sample_shape& in);

/// Samples are sequences, in any shape.
layer_ptr make_lstm(const layer_spec& spec, const sample_shape& in);

/// Samples are images.
layer_ptr make_conv2d(const layer_spec& spec, const sample_shape& in);
/// Pools of all three kinds.
layer_ptr make_pool2d(const layer_spec& spec, const sample_shape& in);

/// Samples are either.
layer_ptr make_batch_norm(const layer_spec& spec, const sample_shape& in);
layer_ptr make_relu(const sample_shape& in);
layer_ptr make_gelu(const sample_shape& in);
layer_ptr make_dropout(const layer_spec& spec, const sample_shape& in);
layer_ptr make_flatten(const sample_shape& in);
/// Requires: `inner` is not empty, and its last output has the shape `in`.
layer_ptr make_residual(const sample_shape& in, std::vector<layer_ptr> inner);

/// Returns the convolution of a `conv2d` of images `in`.
kernels::conv2d_shape conv2d_shape_of(const layer_spec& spec, const sample_shape& in);
/// Returns the windows of a pool of images `in`.
kernels::pool2d_shape pool2d_shape_of(const layer_spec& spec, const sample_shape& in);

/// Returns the shape [steps, features] in which an `lstm` takes samples `in`; null: it cannot.
std::optional<sample_shape> sequence_of(const layer_spec& spec, const sample_shape& in);

/// Returns how many numbers the tensors have.
std::size_t count_of(const std::vector<named_parameter>& tensors);

/// Fills in weights as PyTorch bounds them, uniform in ±1/sqrt(fan_in): weight i is a function of the key and
/// `first` + i.
void fill_uniform(std::uint64_t key, std::size_t first, std::size_t count, std::size_t fan_in, float* weights);

}  // namespace troupe::model
