// Random numbers for a table's rows, normal or uniform. `stream::draw_rows` draws them. Thread: any, on disjoint
// outputs.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/table_choices.hpp"
#include "kernels/random_bits.hpp"

namespace troupe::kernels {

/// out[i] = sqrt(-2 ln(1 - u1)) * cos(2 pi u2) (Box & Muller, 1958), where u1 and u2 in [0, 1) are values 2*i and 2*i +
/// 1 of the stream `key` (random_bits.hpp), computed in double and rounded to float. The bits are the same on every
/// machine: logarithm and cosine are series of IEEE operations (accurate to 1e-10), because the last bit of the
/// mathematics library's differs between machines.
void draw_normals(std::uint64_t key, std::size_t count, float* out);

/// The largest deviation that keeps all numbers of `draw_normals` times it finite: none is above 8.6, as u1 has 53
/// bits.
constexpr double deviation_max = static_cast<double>(std::numeric_limits<float>::max()) / 10;

/// Normal: the numbers of `draw_normals` times the deviation, in float. Uniform: out[i] = first + u * (second - first),
/// where u in [0, 1) is value i of the stream `key`, computed in double and rounded to float. Both have the same bits
/// on every machine.
void draw_numbers(const row_init& from, std::uint64_t key, std::size_t count, float* out);

/// The keys of the random streams of a table's rows.
struct row_keys {
  std::uint64_t first = 0;
  std::uint64_t step = 1;

  constexpr std::uint64_t of(std::uint64_t row) const { return mix(first + row * step); }
};

}  // namespace troupe::kernels
