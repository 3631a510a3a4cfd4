// Dot interaction of DLRM: the dots of all pairs of a sample's vectors, and their gradients (Naumov et al., Deep
// Learning Recommendation Model for Personalization and Recommendation Systems, 2019).
//
// A sample has n vectors of `dim` floats; vector number i of all samples is a matrix [batch, dim] of its own, so that
// vectors from different places need not be copied together. Pairs (i, j), i > j, come row by row of the lower
// triangle: (1,0), (2,0), (2,1), (3,0), ... A vector's dot with itself is not among them.
//
// A dot is summed in index order from +0, a gradient in the order of the vectors from +0, by fused multiply-add where
// the machine has it: the bits do not depend on the width of a vector register. Functions may be called from any
// thread on disjoint outputs.

#pragma once

#include <cstddef>
#include <span>

namespace troupe::kernels {

/// A row-major matrix whose rows begin `stride` elements apart.
template <class T>
struct row_matrix {
  T* data = nullptr;
  std::size_t stride = 0;
};

/// How many pairs `vectors` vectors make.
constexpr std::size_t pair_count(std::size_t vectors) { return vectors * (vectors - 1) / 2; }

/// dots[b, pair(i, j)] = x[i][b, :] * x[j][b, :]; dots is [batch, pair_count(x.size())].
void pairwise_dots(std::size_t batch, std::size_t dim, std::span<const row_matrix<const float>> x,
                   row_matrix<float> dots);

/// grad_x[i][b, :] = sum over j != i of grad_dots[b, pair(i, j)] * x[j][b, :], overwritten. NaN or Inf in x[i] makes
/// its own gradient NaN as well.
void pairwise_dots_backward(std::size_t batch, std::size_t dim, std::span<const row_matrix<const float>> x,
                            row_matrix<const float> grad_dots, std::span<const row_matrix<float>> grad_x);

}  // namespace troupe::kernels
