// Normal random numbers from uniform ones. Thread: any, on disjoint outputs.

#pragma once

#include <cstddef>

namespace troupe::kernels {

/// out[i] = sqrt(-2 ln(1 - u1[i])) * cos(2 pi u2[i]) for numbers in [0, 1) (Box & Muller, 1958), computed in double and
/// rounded to float. The bits are the same on every machine: logarithm and cosine are series of IEEE operations
/// (accurate to 1e-10), because the last bit of the mathematics library's differs between machines.
void box_muller(std::size_t count, const double* u1, const double* u2, float* out);

}  // namespace troupe::kernels
