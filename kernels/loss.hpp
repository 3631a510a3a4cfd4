// Losses: the mean over the batch (and the outputs), and its gradient with respect to the network's outputs.
//
// Outputs are row-major [batch, outputs]. The sum over samples is kept in double and in batch order. `grad` is
// overwritten with the gradient of the mean and may be the outputs' own buffer. batch must not be 0.
// Functions may be called from any thread on disjoint outputs.

#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// Cross-entropy of softmax(logits) against class numbers in [0, classes):
/// loss = mean_b(log(sum_c exp(z_bc - max_b)) + max_b - z_b,target).
double softmax_cross_entropy(std::size_t batch, std::size_t classes, const float* logits, const std::int64_t* target,
                             float* grad);

/// Binary cross-entropy with logits against targets in [0, 1]:
/// loss = mean(max(z, 0) - z*t + log(1 + exp(-|z|))), grad = (sigmoid(z) - t)/n, n = batch * outputs.
double bce_with_logits(std::size_t batch, std::size_t outputs, const float* logits, const float* target, float* grad);

/// Mean squared error: loss = mean((y - t)^2), grad = 2 (y - t)/n, n = batch * outputs.
double mean_squared_error(std::size_t batch, std::size_t outputs, const float* y, const float* target, float* grad);

}  // namespace troupe::kernels
