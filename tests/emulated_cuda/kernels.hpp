// Replaces what nvcc gives to a kernel, for the processor's compiler: included before every source of the CUDA backend.
//
// A grid's blocks run one after the other on the stream's thread. The threads of a block are fibers of that thread:
// each runs until it has to wait for others at __syncthreads or a shuffle. If some threads of a block miss a barrier,
// or some lanes of a mask miss a shuffle, the process ends with a message.

#pragma once

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming, modernize-deprecated-headers): CUDA's names

#include <cuda_runtime_api.h>
#include <math.h>
#include <vector_types.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

// Blocks run one after the other on the stream's thread, so they may share these variables.
#undef __shared__
#define __shared__ static thread_local
#undef __launch_bounds__
#define __launch_bounds__(...)

extern thread_local uint3 threadIdx;
extern thread_local uint3 blockIdx;
extern thread_local dim3 blockDim;
extern thread_local dim3 gridDim;

/// Waits for all threads of the block.
void __syncthreads();

template <class T>
T __ldg(const T* from) {
  return *from;
}

inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long bits) { return std::bit_cast<double>(bits); }

namespace troupe::emulated_cuda {

/// Enqueues `thread` on the stream, once for each thread of the grid. One-dimensional grids and blocks only.
cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> thread);

/// Launches a kernel with the present values of its arguments.
template <class... Parameters>
cudaError_t launch_kernel(const cudaLaunchConfig_t& config, void (*kernel)(Parameters...),
                          const std::type_identity_t<Parameters>&... arguments) {
  return launch(config, [kernel, kept = std::tuple<Parameters...>(arguments...)] { std::apply(kernel, kept); });
}

/// Exchanges `value` between the lanes of `mask`; each reads one lane. Returns the value of lane `from`.
std::uint64_t shuffle(unsigned mask, std::uint64_t value, unsigned from);

/// This thread's index in its warp.
unsigned lane();

template <class T>
T shuffle_value(unsigned mask, T value, unsigned from) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = shuffle(mask, bits, from);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace troupe::emulated_cuda

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int lanes = 32) {
  const unsigned lane = troupe::emulated_cuda::lane();
  const auto count = static_cast<unsigned>(lanes);
  return troupe::emulated_cuda::shuffle_value(mask, value, lane / count * count + static_cast<unsigned>(from) % count);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, unsigned apart) {
  return troupe::emulated_cuda::shuffle_value(mask, value, troupe::emulated_cuda::lane() ^ apart);
}

// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming, modernize-deprecated-headers)
