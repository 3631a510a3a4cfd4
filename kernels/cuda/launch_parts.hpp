// The work of several tables in one launch. Its parts are passed by value, so that nothing is uploaded before the
// launch and a graph keeps them: `launch_parts` of 32 need less than the 4 KiB limit of a kernel's parameters.

#pragma once

#include <cstddef>

#include "kernels/cuda/launch.hpp"

namespace troupe::kernels::cuda {

/// The most parts of one launch; more need several launches.
inline constexpr unsigned parts_max = 32;

/// Returns the index of the last of `count` ascending numbers that is at most `value`. Requires: the first one is.
template <class Number>
__device__ unsigned last_at_most(const Number* numbers, unsigned count, Number value) {
  unsigned found = 0;
  while (count > 1) {
    const unsigned half = count / 2;
    if (numbers[found + half] <= value) found += half;
    count -= half;
  }
  return found;
}

/// Parts, each with its own blocks:
///
///   block      0  1  2  3  4  5  6
///   part       0  0  0  1  2  2  2      firsts 0, 3, 4
template <class Part>
struct launch_parts {
  Part parts[parts_max];
  unsigned firsts[parts_max];  ///< each part's first block
  unsigned count = 0;
  unsigned blocks = 0;

  /// Adds a part with `of_part` blocks. Requires: it is not full, and `of_part` is not 0.
  void add(const Part& part, std::size_t of_part) {
    parts[count] = part;
    firsts[count++] = blocks;
    blocks += static_cast<unsigned>(of_part);
  }
  bool is_full() const { return count == parts_max; }

  /// This block's part, and this thread's index among the part's threads.
  struct place {
    unsigned part;
    std::size_t thread;
  };
  __device__ place here() const {
    const unsigned part = last_at_most(firsts, count, static_cast<unsigned>(blockIdx.x));
    return {part, std::size_t{blockIdx.x - firsts[part]} * blockDim.x + threadIdx.x};
  }
};

}  // namespace troupe::kernels::cuda
