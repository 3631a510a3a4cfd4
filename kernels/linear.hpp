// A fully connected layer, y = x W^T + b, and its gradients, by one matrix product each on the calling thread: BLAS, or
// for tiny shapes a loop of our own. The shapes alone decide which.
//
// Shapes, all row-major: x [batch, in], W [out, in], b [out], y [batch, out]. Any of them may have zero batch rows.
// Functions may be called from any thread on disjoint outputs; BLAS starts no threads of its own.

#pragma once

#include <cstddef>

namespace troupe::kernels {

/// y = x W^T + b.
void linear_forward(std::size_t batch, std::size_t in, std::size_t out, const float* x, const float* weight,
                    const float* bias, float* y);

/// grad_weight = grad_y^T x and grad_bias = column sums of grad_y, both overwritten (rows in batch order).
void linear_backward_parameters(std::size_t batch, std::size_t in, std::size_t out, const float* x, const float* grad_y,
                                float* grad_weight, float* grad_bias);

/// grad_x = grad_y W, overwritten.
void linear_backward_input(std::size_t batch, std::size_t in, std::size_t out, const float* weight, const float* grad_y,
                           float* grad_x);

}  // namespace troupe::kernels
