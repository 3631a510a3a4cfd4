// Reductions in an order that depends on the count only: each block combines the values of its threads, and one more
// block combines the results of the blocks. Blocks have `block_threads` threads.

#pragma once

#include "kernels/cuda/launch.hpp"

namespace troupe::kernels::cuda {

/// The most blocks of a reduction.
inline constexpr std::size_t reduce_blocks_max = 1024;

/// Returns the number of blocks for a reduction of `count` numbers.
constexpr std::size_t reduce_blocks(std::size_t count) {
  constexpr std::size_t numbers_per_thread = 16;
  return blocks_for(count / numbers_per_thread + 1, reduce_blocks_max);
}

/// The sum; `finish` divides it by `parameter`.
struct sum_of {
  using value = double;
  static constexpr value neutral = 0;
  static __device__ value finish(value all, value parameter) { return all / parameter; }
  __device__ value operator()(value a, value b) const { return a + b; }
};

/// The least value; `finish` limits it to `parameter`.
struct least_of {
  using value = std::uint64_t;
  static constexpr value neutral = ~value{0};
  static __device__ value finish(value all, value parameter) { return all < parameter ? all : parameter; }
  __device__ value operator()(value a, value b) const { return b < a ? b : a; }
};

inline constexpr unsigned all_lanes = 0xffffffff;

/// Combines the values of all lanes of a warp; every lane gets the same result.
template <class T, class Combine>
__device__ T combine_warp(T x, Combine combine) {
  for (unsigned apart = warp_lanes / 2; apart > 0; apart /= 2) x = combine(x, __shfl_xor_sync(all_lanes, x, apart));
  return x;
}

/// Combines the values of all threads of the block; thread 0 gets the result. Requires: all threads call it, once per
/// kernel.
template <class Combine>
__device__ typename Combine::value combine_block(typename Combine::value mine, Combine combine) {
  constexpr unsigned parts = 16;
  __shared__ typename Combine::value values[block_threads];
  values[threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.x < parts) {
    for (unsigned i = threadIdx.x + parts; i < block_threads; i += parts) mine = combine(mine, values[i]);
    values[threadIdx.x] = mine;
  }
  __syncthreads();
  if (threadIdx.x == 0)
    for (unsigned i = 1; i < parts; ++i) mine = combine(mine, values[i]);
  return mine;
}

/// Combines the values of all threads of the block and stores the result as the block's part.
template <class Combine>
__device__ void store_part(typename Combine::value mine, typename Combine::value* parts) {
  mine = combine_block(mine, Combine());
  if (threadIdx.x == 0) parts[blockIdx.x] = mine;
}

/// *result = finish(all `parts` combined, parameter). Requires: one block.
template <class Combine>
__global__ void finish_reduction(const typename Combine::value* parts, std::size_t count,
                                 typename Combine::value parameter, typename Combine::value* result) {
  typename Combine::value mine = Combine::neutral;
  for (std::size_t i = threadIdx.x; i < count; i += block_threads) mine = Combine()(mine, parts[i]);
  const typename Combine::value all = combine_block(mine, Combine());
  if (threadIdx.x == 0) *result = Combine::finish(all, parameter);
}

/// *result = the sum of the parts that the blocks of `kernel` store, divided by `divisor`. The parts are the kernel's
/// last argument.
template <class... Parameters, class... Arguments>
void sum_parts(void (*kernel)(Parameters...), std::size_t blocks, const cuda_stream& stream, double divisor,
               double* result, const Arguments&... arguments) {
  auto* const parts = reinterpret_cast<double*>(stream.parts());
  launch(kernel, blocks, stream, arguments..., parts);
  launch(finish_reduction<sum_of>, 1, stream, parts, blocks, divisor, result);
}

}  // namespace troupe::kernels::cuda
