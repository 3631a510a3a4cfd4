// The samples that losses are computed from.

#pragma once

#include <cstddef>

namespace troupe::kernels {

/// Samples of a batch: all of it, or one of its parts. Means are over the whole batch.
struct batch_part {
  std::size_t size;
  std::size_t whole;  ///< the batch's samples

  /// All of a batch.
  constexpr batch_part(std::size_t batch) : size(batch), whole(batch) {}  // NOLINT(google-explicit-constructor)
  constexpr batch_part(std::size_t size_of_part, std::size_t size_of_batch)
      : size(size_of_part), whole(size_of_batch) {}
};

}  // namespace troupe::kernels
