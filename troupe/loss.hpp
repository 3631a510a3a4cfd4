// Losses: the mean over a batch, a tensor of one number from which `context::backward` goes back.

#pragma once

#include <cstdint>
#include <span>

#include "troupe/context.hpp"
#include "troupe/tensor.hpp"

namespace troupe::nn {

/// The mean cross-entropy of softmax(outputs) [n, classes] against the classes [n]. Throws `error` if shapes do not fit
/// or a class is out of range.
tensor cross_entropy(context& in, const tensor& outputs, std::span<const std::int64_t> classes);

}  // namespace troupe::nn
