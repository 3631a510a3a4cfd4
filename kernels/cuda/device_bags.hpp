// Bags as kernels use them: a `bags_view` in device memory.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/embedding_bag.hpp"

namespace troupe::kernels::cuda {

/// Without offsets, each index is a bag.
struct device_bags {
  const std::int64_t* indices = nullptr;
  const std::int64_t* offsets = nullptr;
  const float* weights = nullptr;
  std::size_t index_count = 0;
  std::size_t bag_count = 0;

  __device__ std::size_t begin_of(std::size_t bag) const {
    return offsets ? static_cast<std::size_t>(offsets[bag]) : bag;
  }
  __device__ std::size_t end_of(std::size_t bag) const { return bag + 1 < bag_count ? begin_of(bag + 1) : index_count; }
};

/// Bags without offsets hold one index each.
inline device_bags as_device_bags(const bags_view& bags) {
  const bool each = bags.offsets.empty();
  return {bags.indices.data(), each ? nullptr : bags.offsets.data(),
          bags.weights.empty() ? nullptr : bags.weights.data(), bags.indices.size(),
          each ? bags.indices.size() : bags.size()};
}

}  // namespace troupe::kernels::cuda
