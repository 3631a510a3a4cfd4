// Normal numbers from uniform ones. May be called from any thread on disjoint outputs.

#pragma once

#include <cstddef>

namespace troupe::kernels {

/// out[i] = sqrt(-2 ln(1 - u1[i])) * cos(2 pi u2[i]) for numbers in [0, 1) (Box & Muller, 1958), computed in double and
/// rounded to float. Logarithm and cosine are series of IEEE operations (accurate to 1e-10), not the mathematics
/// library's, whose last bit differs between machines: the bits are the same everywhere.
void box_muller(std::size_t count, const double* u1, const double* u2, float* out);

}  // namespace troupe::kernels
