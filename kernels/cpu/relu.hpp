// ReLU on the processor, which follows a linear layer's product there.

#pragma once

#include <cstddef>

namespace troupe::kernels {

/// y = max(x, 0), NaN kept; y may be x. May be called from any thread on disjoint outputs.
void relu_forward(std::size_t count, const float* x, float* y);

}  // namespace troupe::kernels
