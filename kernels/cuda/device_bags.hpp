// Bags as kernels see them: a `bags_view` of the device's memory.

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

inline device_bags bags_of_one(std::span<const std::int64_t> indices) {
  return {indices.data(), nullptr, nullptr, indices.size(), indices.size()};
}

inline device_bags with_offsets(const bags_view& bags) {
  return {bags.indices.data(), bags.offsets.data(), bags.weights.empty() ? nullptr : bags.weights.data(),
          bags.indices.size(), bags.size()};
}

}  // namespace troupe::kernels::cuda
