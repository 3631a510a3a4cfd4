// Normal and uniform numbers on the device: the operations of cpu/normal.cpp in the same order, so that the bits are
// equal. Multiply-adds are not fused (tools/cmake/cuda.cmake).

#include "kernels/normal.hpp"

#include <numbers>

#include "kernels/cuda/cuda_stream.hpp"
#include "kernels/cuda/packs.hpp"
#include "kernels/random_bits.hpp"

namespace troupe::kernels::cuda {
namespace {

/// `mix(z)`.
__device__ std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * splitmix::first_factor;
  z = (z ^ (z >> 27)) * splitmix::second_factor;
  return z ^ (z >> 31);
}

/// `unit_from(mix(z))`.
__device__ double unit_of(std::uint64_t z) { return static_cast<double>(mixed(z) >> 11) * 0x1p-53; }

/// Evaluates the polynomial in z with the coefficients `sum` and `next`, from the highest power on; two roundings a
/// term.
template <class... Coefficients>
__device__ double horner(double z, double sum, Coefficients... next) {
  ((sum = sum * z + next), ...);
  return sum;
}

/// ln(x) for normal x > 0.
__device__ double natural_logarithm(double x) {
  constexpr std::uint64_t root_half = 0x3fe6a09e667f3bcd;
  constexpr std::uint64_t one = 0x3ff0000000000000;
  constexpr std::uint64_t fraction = 0x000fffffffffffff;
  const std::uint64_t shifted = static_cast<std::uint64_t>(__double_as_longlong(x)) + (one - root_half);
  const double exponent = static_cast<double>(shifted >> 52) - 1023.0;
  const double mantissa = __longlong_as_double(static_cast<long long>((shifted & fraction) + root_half));
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double series = horner(s * s, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0);
  return exponent * std::numbers::ln2 + 2.0 * s * series;
}

/// cos(2 pi u) for u in [0, 1).
__device__ double cosine_of_turn(double u) {
  const double x = 2 * std::numbers::pi * (fabs(u - 0.5) - 0.25);
  return x * horner(x * x, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040,
                    1.0 / 120, -1.0 / 6, 1.0);
}

/// Number `i` of `draw_normals(key, ...)`.
__device__ float normal_number(std::uint64_t key, std::uint64_t i) {
  const std::uint64_t before = key + 2 * i * splitmix::increment;
  const double left = 1.0 - unit_of(before + splitmix::increment);
  const double radius = sqrt(-2.0 * natural_logarithm(left));
  return static_cast<float>(radius * cosine_of_turn(unit_of(before + 2 * splitmix::increment)));
}

/// Number `i` of `draw_numbers(from, key, ...)`.
__device__ float number_of(const row_init& from, std::uint64_t key, std::uint64_t i) {
  if (from.is == row_init::kind::normal) return normal_number(key, i) * static_cast<float>(from.first);
  return static_cast<float>(from.first + unit_of(key + (i + 1) * splitmix::increment) * (from.second - from.first));
}

template <class Number>
__global__ void draw_rows_kernel(row_init from, row_keys keys, std::size_t rows, std::size_t dim, Number* table,
                                 lane_share share) {
  const std::size_t row = share.item();
  if (row >= rows) return;
  const std::uint64_t key = mixed(keys.first + row * keys.step);
  for (std::size_t col = share.lane(); col < dim; col += share.lanes())
    store_float(number_of(from, key, col), table[row * dim + col]);
}

}  // namespace

void cuda_stream::draw_rows(const row_init& from, const row_keys& keys, std::size_t rows, std::size_t dim,
                            table_view table) {
  const lane_share share = share_for(dim, 1);
  with_numbers(table, [&]<class Number>(Number* numbers) {
    launch(draw_rows_kernel<Number>, share.blocks(rows), *this, from, keys, rows, dim, numbers, share);
  });
}

}  // namespace troupe::kernels::cuda
