// Sorting and prefix sums by CUB, which only this file includes.

#include "kernels/cuda/sort.hpp"

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "kernels/cuda/check.hpp"

namespace troupe::kernels::cuda {

template <class Key>
std::size_t sort_scratch_bytes(std::size_t count) {
  const auto n = static_cast<int>(count);
  std::size_t sort_bytes = 0;
  std::size_t sum_bytes = 0;
  const Key* const keys = nullptr;
  std::uint32_t* const values = nullptr;
  check(cub::DeviceRadixSort::SortPairs(nullptr, sort_bytes, keys, static_cast<Key*>(nullptr),
                                        static_cast<const std::uint32_t*>(nullptr), values, n),
        "cub::DeviceRadixSort::SortPairs");
  check(cub::DeviceScan::InclusiveSum(nullptr, sum_bytes, values, values, n), "cub::DeviceScan::InclusiveSum");
  return std::max(sort_bytes, sum_bytes);
}

template <class Key>
void sort_pairs(void* scratch, std::size_t scratch_bytes, const Key* keys, Key* sorted_keys,
                const std::uint32_t* values, std::uint32_t* sorted_values, std::size_t count, int bits,
                cudaStream_t stream) {
  check(cub::DeviceRadixSort::SortPairs(scratch, scratch_bytes, keys, sorted_keys, values, sorted_values,
                                        static_cast<int>(count), 0, bits, stream),
        "cub::DeviceRadixSort::SortPairs");
}

void running_sum(void* scratch, std::size_t scratch_bytes, std::uint32_t* x, std::size_t count, cudaStream_t stream) {
  check(cub::DeviceScan::InclusiveSum(scratch, scratch_bytes, x, x, static_cast<int>(count), stream),
        "cub::DeviceScan::InclusiveSum");
}

template std::size_t sort_scratch_bytes<std::uint32_t>(std::size_t count);
template std::size_t sort_scratch_bytes<std::uint64_t>(std::size_t count);
template void sort_pairs(void* scratch, std::size_t scratch_bytes, const std::uint32_t* keys,
                         std::uint32_t* sorted_keys, const std::uint32_t* values, std::uint32_t* sorted_values,
                         std::size_t count, int bits, cudaStream_t stream);
template void sort_pairs(void* scratch, std::size_t scratch_bytes, const std::uint64_t* keys,
                         std::uint64_t* sorted_keys, const std::uint32_t* values, std::uint32_t* sorted_values,
                         std::size_t count, int bits, cudaStream_t stream);

}  // namespace troupe::kernels::cuda
