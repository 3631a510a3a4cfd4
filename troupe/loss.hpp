// Losses: the mean over a batch, as a tensor of one number, from which `context::backward` starts.

#pragma once

#include <cstdint>
#include <span>

#include "troupe/context.hpp"
#include "troupe/tensor.hpp"

namespace troupe::nn {

/// The mean cross-entropy of softmax(outputs) [n, classes] against the classes [n]. Throws `error` if shapes do not fit
/// or a class is out of range.
tensor cross_entropy(context& in, const tensor& outputs, std::span<const std::int64_t> classes);

/// The mean of (outputs - targets)^2. Both have one shape, of float32; gradients go to the outputs only. Throws `error`
/// if shapes or types do not fit.
tensor mse_loss(context& in, const tensor& outputs, const tensor& targets);

/// The mean binary cross-entropy of sigmoid(outputs) against the targets, which are between 0 and 1. Otherwise as
/// `mse_loss`.
tensor bce_with_logits(context& in, const tensor& outputs, const tensor& targets);

}  // namespace troupe::nn
