// Numbers in device memory: their formats, and loads and stores of several at once.

#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/launch.hpp"
#include "kernels/embedding_bag.hpp"

namespace troupe::kernels::cuda {

inline __device__ float to_float(float x) { return x; }
inline __device__ float to_float(__half x) { return __half2float(x); }
inline __device__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

/// Rounds to nearest, ties to even.
inline __device__ void store_float(float x, float& to) { to = x; }
inline __device__ void store_float(float x, __half& to) { to = __float2half_rn(x); }
inline __device__ void store_float(float x, __nv_bfloat16& to) { to = __float2bfloat16_rn(x); }

inline __device__ bool is_finite(float x) { return fabsf(x) <= 3.402823466e+38F; }

/// Numbers loaded or stored by one instruction; aligned to their total size.
template <class Number, int Count>
struct alignas(sizeof(Number) * Count) pack {
  Number at[Count];
};

template <int Count, class Number>
__device__ pack<Number, Count> load_pack(const Number* from) {
  return *reinterpret_cast<const pack<Number, Count>*>(from);
}

template <class Number, int Count>
__device__ void store_pack(const pack<Number, Count>& x, Number* to) {
  *reinterpret_cast<pack<Number, Count>*>(to) = x;
}

/// Prefetches the memory line at `from` into the L2 cache, without waiting for it.
inline __device__ void prefetch(const void* from) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(from)));
#else
  (void)from;
#endif
}

/// Returns whether `numbers` is aligned for packs of `Count`.
template <int Count, class Number>
bool fits_packs(const Number* numbers) {
  return reinterpret_cast<std::uintptr_t>(numbers) % (sizeof(Number) * Count) == 0;
}

/// The number of elements in a call of a body, as a type.
template <int Count>
using width = std::integral_constant<int, Count>;

/// Calls body(width, at) for elements at .. at + width, until the threads of the grid have covered [0, count): packs of
/// `Width`, and the rest one by one. Requires: at least `Width` threads.
template <int Width, class Body>
__device__ void for_each_pack(std::size_t count, const Body& body) {
  const std::size_t packs = count / Width;
  for (std::size_t p = global_thread(); p < packs; p += thread_count()) body(width<Width>(), p * Width);
  if constexpr (Width > 1) {
    const std::size_t at = packs * Width + global_thread();
    if (at < count) body(width<1>(), at);
  }
}

/// Calls body(width, i) for i .. i + width, until [begin, end) is covered in order: groups of `Count`, then ever
/// smaller ones. The body handles a group without branches, so that its loads are issued together.
template <int Count, class Index, class Body>
__device__ void for_each_group(Index begin, Index end, const Body& body) {
#ifdef __CUDACC__
#pragma unroll 1  // more loads at once would only cost registers
#endif
  for (; end - begin >= Count; begin += Count) body(width<Count>(), begin);
  if constexpr (Count > 1) for_each_group<Count / 2>(begin, end, body);
}

/// Returns the number of blocks for `for_each_pack`, for any width.
constexpr std::size_t blocks_for_packs(std::size_t count) {
  constexpr std::size_t most = 1 << 14;
  return blocks_for(count / 4 + (count > 0 ? 1 : 0), most);
}

/// A group of threads of a warp (a power of two) that shares an item: a row, or a bag.
struct lane_share {
  unsigned shift = 0;

  __host__ __device__ unsigned lanes() const { return 1U << shift; }
  std::size_t blocks(std::size_t items, std::size_t most = 0x7fffffff) const {
    return blocks_for(items * lanes(), most);
  }

  /// This thread's item, its index in the group, and the number of items that the grid handles at once.
  __device__ std::size_t item() const { return global_thread() >> shift; }
  __device__ unsigned lane() const { return threadIdx.x & (lanes() - 1); }
  __device__ std::size_t items_at_once() const { return thread_count() >> shift; }
};

/// Returns the share for items of `count` numbers; a thread loads `pack_width` at a time.
constexpr lane_share share_for(std::size_t count, int pack_width) {
  lane_share share;
  while (share.shift < 5 && (std::size_t{1} << share.shift) * static_cast<std::size_t>(pack_width) < count)
    ++share.shift;
  return share;
}

/// Calls `body` with a typed pointer to the numbers of a `table_view` or `const_table_view`.
template <class View, class Body>
void with_numbers(View table, const Body& body) {
  constexpr bool is_const = std::is_const_v<std::remove_pointer_t<decltype(table.data)>>;
  const auto as = [&]<class Number>(std::type_identity<Number>) {
    body(static_cast<std::conditional_t<is_const, const Number*, Number*>>(table.data));
  };
  if (table.type == row_dtype::f16) return as(std::type_identity<__half>());
  if (table.type == row_dtype::bf16) return as(std::type_identity<__nv_bfloat16>());
  as(std::type_identity<float>());
}

}  // namespace troupe::kernels::cuda
