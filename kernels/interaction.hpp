// Dot interaction of DLRM: the dot products of all pairs of a sample's vectors, and their gradients (Naumov et al.,
// Deep Learning Recommendation Model for Personalization and Recommendation Systems, 2019).
//
// A sample has n vectors of `dim` floats. Vector i of all samples is a separate matrix [batch, dim], so that vectors
// from different buffers need no copy. Pairs (i, j), i > j, are ordered by rows of the lower triangle: (1,0), (2,0),
// (2,1), (3,0), ... A vector's dot product with itself is not included.
//
// A dot product is summed in index order from +0, a gradient in the order of the vectors from +0, by fused multiply-add
// where the machine has it. The bits do not depend on the width of a vector register.

#pragma once

#include <cstddef>

namespace troupe::kernels {

/// A row-major matrix whose rows begin `stride` elements apart.
template <class T>
struct row_matrix {
  T* data = nullptr;
  std::size_t stride = 0;
};

/// Returns the number of pairs of `vectors` vectors.
constexpr std::size_t pair_count(std::size_t vectors) { return vectors * (vectors - 1) / 2; }

}  // namespace troupe::kernels
