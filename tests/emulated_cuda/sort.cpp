// Sorting and running sums on an emulated stream, with the standard library.

#include "kernels/cuda/sort.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/cuda/check.hpp"
#include "tests/emulated_cuda/faults.hpp"
#include "tests/emulated_cuda/runtime.hpp"

namespace troupe::kernels::cuda {
namespace {

/// Enqueues work for which CUB would overwrite all of its scratch memory.
void enqueue_with(void* scratch, std::size_t scratch_bytes, cudaStream_t stream, emulated_cuda::work task) {
  check(emulated_cuda::enqueue_kernel(stream,
                                      [scratch, scratch_bytes, task = std::move(task)] {
                                        std::memset(scratch, 0xff, scratch_bytes);
                                        task();
                                      }),
        "enqueue_kernel");
  ++emulated_cuda::counted().launches;
}

}  // namespace

template <class Key>
std::size_t sort_scratch_bytes(std::size_t count) {
  return count * (sizeof(Key) + sizeof(std::uint32_t)) + 1024;
}

template <class Key>
void sort_pairs(void* scratch, std::size_t scratch_bytes, const Key* keys, Key* sorted_keys,
                const std::uint32_t* values, std::uint32_t* sorted_values, std::size_t count, int bits,
                cudaStream_t stream) {
  enqueue_with(scratch, scratch_bytes, stream, [=] {
    const Key mask = bits == 8 * sizeof(Key) ? ~Key{0} : (Key{1} << bits) - 1;
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return (keys[a] & mask) < (keys[b] & mask); });
    for (std::size_t i = 0; i < count; ++i) {
      sorted_keys[i] = keys[order[i]];
      sorted_values[i] = values[order[i]];
    }
  });
}

void running_sum(void* scratch, std::size_t scratch_bytes, std::uint32_t* x, std::size_t count, cudaStream_t stream) {
  enqueue_with(scratch, scratch_bytes, stream, [=] { std::partial_sum(x, x + count, x); });
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
