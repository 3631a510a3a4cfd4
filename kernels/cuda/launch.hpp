// Kernel launches, and the division of work over threads.

#pragma once

#include <utility>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/cuda_stream.hpp"

namespace troupe::kernels::cuda {

/// Threads per block, in every kernel.
inline constexpr unsigned block_threads = 256;
/// Threads per warp.
inline constexpr unsigned warp_lanes = 32;

/// Launches `kernel` with `blocks` blocks of `block_threads` threads; none if `blocks` is 0. Makes the stream's device
/// current.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), std::size_t blocks, const cuda_stream& stream,
            const Arguments&... arguments) {
  stream.device().make_current();
  if (blocks == 0) return;
  const auto turn = stream.device().graphs()->take_turn();
  cudaLaunchConfig_t config{};
  config.gridDim = dim3{static_cast<unsigned>(blocks), 1, 1};
  config.blockDim = dim3{block_threads, 1, 1};
  config.stream = stream.handle();
#ifdef __CUDACC__
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "cudaLaunchKernelEx");
#else  // the emulated launch
  check(emulated_cuda::launch_kernel(config, kernel, static_cast<Parameters>(arguments)...), "launch_kernel");
#endif
}

/// Returns the number of blocks for `threads` threads, at most `most`.
constexpr std::size_t blocks_for(std::size_t threads, std::size_t most = 0x7fffffff) {
  const std::size_t blocks = (threads + block_threads - 1) / block_threads;
  return blocks < most ? blocks : most;
}

/// This thread's number in the grid, and the number of threads.
inline __device__ std::size_t global_thread() { return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
inline __device__ std::size_t thread_count() { return std::size_t{gridDim.x} * blockDim.x; }

/// Returns a / b, by a 32-bit division if both fit: devices have no other, and a 64-bit one takes many instructions.
inline __device__ std::size_t quotient(std::size_t a, std::size_t b) {
  return (a | b) >> 32 == 0 ? static_cast<unsigned>(a) / static_cast<unsigned>(b) : a / b;
}

template <class Body, int... Indices>
__device__ void unroll(const Body& body, std::integer_sequence<int, Indices...>) {
  (body(Indices), ...);
}

/// Calls body(0) ... body(Count - 1) unrolled, so that the arrays that they index stay in registers.
template <int Count, class Body>
__device__ void unrolled(const Body& body) {
  unroll(body, std::make_integer_sequence<int, Count>());
}

}  // namespace troupe::kernels::cuda
