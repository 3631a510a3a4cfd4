#include "troupe/runtime/rank_reduction.hpp"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "actors/collective/ordered_sum.hpp"

namespace troupe::runtime {

namespace {

template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  else
    return a + b;
}

/// A number that differs from itself is NaN.
template <class T>
T least_of(T a, T b) {
  return a != a || (b == b && a <= b) ? a : b;
}
template <class T>
T greatest_of(T a, T b) {
  return a != a || (b == b && a >= b) ? a : b;
}

template <class T, class F>
void fold(std::span<const std::byte* const> in, std::size_t count, T* out, F with) {
  constexpr std::size_t block = 4096;  // stays in the first-level cache from input to input
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t end = std::min(begin + block, count);
    const T* const first = reinterpret_cast<const T*>(in[0]);
    std::copy(first + begin, first + end, out + begin);
    for (const std::byte* const one : in.subspan(1)) {
      const T* const numbers = reinterpret_cast<const T*>(one);
      for (std::size_t i = begin; i < end; ++i) out[i] = with(out[i], numbers[i]);
    }
  }
}

template <class T>
void reduce(reduce_op how, std::span<const std::byte* const> in, std::size_t count, T* out) {
  if (how == reduce_op::min) return fold(in, count, out, least_of<T>);
  if (how == reduce_op::max) return fold(in, count, out, greatest_of<T>);
  fold(in, count, out, sum_of<T>);
  if (how == reduce_op::mean && std::is_floating_point_v<T>)
    for (std::size_t i = 0; i < count; ++i) out[i] *= static_cast<T>(1) / static_cast<T>(in.size());
}

}  // namespace

void reduce_in_rank_order(reduce_op how, dtype type, std::span<const std::byte* const> in, std::size_t count,
                          std::byte* out) {
  if (type == dtype::f64) return reduce(how, in, count, reinterpret_cast<double*>(out));
  if (type == dtype::i64) return reduce(how, in, count, reinterpret_cast<std::int64_t*>(out));
  if (how == reduce_op::min || how == reduce_op::max) return reduce(how, in, count, reinterpret_cast<float*>(out));
  actors::sum_of_floats(how == reduce_op::mean ? 1.0F / static_cast<float>(in.size()) : 1.0F)(in, count, out);
}

}  // namespace troupe::runtime
