// Sorting and prefix sums of arrays on a stream.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace troupe::kernels::cuda {

/// Returns how many bytes of device memory the functions below need as `scratch` for `count` elements.
template <class Key>
std::size_t sort_scratch_bytes(std::size_t count);

/// Sorts pairs by the lowest `bits` bits of their keys; stable. Requires: the other bits are 0; `count` <= 2^31 - 1;
/// results do not overlap inputs. Key is std::uint32_t or std::uint64_t.
template <class Key>
void sort_pairs(void* scratch, std::size_t scratch_bytes, const Key* keys, Key* sorted_keys,
                const std::uint32_t* values, std::uint32_t* sorted_values, std::size_t count, int bits,
                cudaStream_t stream);

/// x[i] = x[0] + ... + x[i]. `scratch` has the size for sorting `count` elements.
void running_sum(void* scratch, std::size_t scratch_bytes, std::uint32_t* x, std::size_t count, cudaStream_t stream);

}  // namespace troupe::kernels::cuda
