// The gradient of a table, grouped by row, for kernels, and the sum of one row.
//
// A group of lanes of a warp (a power of two) shares a row; each lane loads `Width` columns at a time, `Packs` times.
// A chunk is the columns that the group loads together. A warp with rows of 16 numbers (Width 4, Packs 1: 4 lanes a
// row, 8 rows):
//
//   lane        0     1     2      3  |   4     5     6      7  | ... |  28    29    30     31
//   columns   0-3   4-7  8-11  12-15  | 0-3   4-7  8-11  12-15  | ... | 0-3   4-7  8-11  12-15
//   row       ------- run r --------  | ------ run r + 1 -----  | ... | ------ run r + 7 -----
//
// and with rows of 1000 numbers (Width 4, Packs 4: 32 lanes a row, chunks of 512 columns, here the first):
//
//   lane         0        1      ...     31
//   pack 0      0-3      4-7     ...   124-127
//   pack 1    128-131  132-135   ...   252-255
//   pack 2    256-259  260-263   ...   380-383
//   pack 3    384-387  388-391   ...   508-511
//
// Each lane sums the row's contributions alone and in order. Lanes communicate only to vote on the row and to add its
// squares.
//
// A row is summed in the order of `update_rows`, for any number of contributions. Long rows have been summed before
// (long_rows.cu).

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/packs.hpp"

namespace troupe::kernels::cuda {

/// scale * row[0 .. dim): one summand of the gradient of a table row.
struct alignas(16) contribution {
  const float* row;
  float scale;
  std::uint32_t rank;
};

/// The distinct rows, ascending, with their contributions in order: those of rows[i] are contributions[begins[i] ..
/// ends[i]).
struct grouped_rows {
  const std::int64_t* rows = nullptr;
  const std::uint32_t* begins = nullptr;
  const std::uint32_t* ends = nullptr;
  const std::uint32_t* count = nullptr;  // number of distinct rows
  const contribution* contributions = nullptr;
  /// Whether every contribution is aligned for packs of four. Lanes have the same columns in any case, so that sums do
  /// not depend on the gradients' addresses.
  bool fit_packs = false;
};

/// This thread's position in the group that shares a row.
struct row_lanes {
  unsigned count;  ///< lanes of the group
  unsigned lane;   ///< this lane's index in the group
  unsigned mask;   ///< lanes of the group in the warp

  static __device__ row_lanes of(lane_share share) {
    const unsigned first = threadIdx.x % 32 - share.lane();
    return {share.lanes(), share.lane(), (0xffffffffU >> (32 - share.lanes())) << first};
  }

  template <int Width, int Packs>
  __device__ std::size_t chunk() const {
    return std::size_t{count} * Width * Packs;
  }

  __device__ bool all(bool mine) const {
    int yes = mine ? 1 : 0;
    for (unsigned apart = count / 2; apart > 0; apart /= 2) yes &= __shfl_xor_sync(mask, yes, apart);
    return yes != 0;
  }

  /// Returns the same bits on every lane.
  __device__ double sum(double mine) const {
    for (unsigned apart = count / 2; apart > 0; apart /= 2) mine += __shfl_xor_sync(mask, mine, apart);
    return mine;
  }
};

/// A lane's columns of a chunk; columns beyond the row stay zero.
template <int Width, int Packs>
struct lane_columns {
  pack<float, Width> at[Packs];
};

/// Calls body(p, column) for the lane's packs within the row, in the chunk that starts at column `begin`.
template <int Width, int Packs, class Body>
__device__ void for_columns(row_lanes lanes, std::size_t begin, std::size_t dim, const Body& body) {
  unrolled<Packs>([&](int p) {
    const std::size_t column = begin + (std::size_t{lanes.count} * static_cast<unsigned>(p) + lanes.lane) * Width;
    if (column < dim) body(p, column);
  });
}

/// Sums contributions begin .. end of one row, rank by rank, in the chunk that starts at `column`.
template <int Width, int Packs>
__device__ lane_columns<Width, Packs> sum_contributions(const grouped_rows& from, std::uint32_t begin,
                                                        std::uint32_t end, row_lanes lanes, std::size_t column,
                                                        std::size_t dim) {
  constexpr int ahead = Packs == 1 ? 2 : 1;  // contributions loaded at once
  lane_columns<Width, Packs> total{};
  lane_columns<Width, Packs> of_rank{};
  std::uint32_t rank = 0;
  const auto close_rank = [&] {
    unrolled<Packs>([&](int p) {
      unrolled<Width>([&](int k) { total.at[p].at[k] += of_rank.at[p].at[k]; });
      of_rank.at[p] = {};
    });
  };
  for_each_group<ahead>(begin, end, [&]<int Count>(width<Count>, std::uint32_t i) {
    contribution some[Count];
    lane_columns<Width, Packs> rows[Count];
    unrolled<Count>([&](int a) { some[a] = from.contributions[i + a]; });
    if (from.fit_packs) {
      for_columns<Width, Packs>(lanes, column, dim, [&](int p, std::size_t c) {
        unrolled<Count>([&](int a) { rows[a].at[p] = load_pack<Width>(some[a].row + c); });
      });
    } else {
      for_columns<Width, Packs>(lanes, column, dim, [&](int p, std::size_t c) {
        unrolled<Count>([&](int a) {
          unrolled<Width>([&](int k) { rows[a].at[p].at[k] = some[a].row[c + static_cast<std::size_t>(k)]; });
        });
      });
    }
    unrolled<Count>([&](int a) {
      if (some[a].rank != rank) close_rank();
      rank = some[a].rank;
      for_columns<Width, Packs>(lanes, column, dim, [&](int p, std::size_t) {
        unrolled<Width>(
            [&](int k) { of_rank.at[p].at[k] = fmaf(some[a].scale, rows[a].at[p].at[k], of_rank.at[p].at[k]); });
      });
    });
  });
  close_rank();
  return total;
}

/// Returns `scale` times the gradient of the row with contributions begin .. end, in the chunk that starts at `column`;
/// 0 without contributions.
template <int Width, int Packs>
__device__ lane_columns<Width, Packs> row_gradient(const grouped_rows& from, std::uint32_t begin, std::uint32_t end,
                                                   float scale, row_lanes lanes, std::size_t column, std::size_t dim) {
  auto grad = sum_contributions<Width, Packs>(from, begin, end, lanes, column, dim);
  unrolled<Packs>([&](int p) { unrolled<Width>([&](int k) { grad.at[p].at[k] *= scale; }); });
  return grad;
}

}  // namespace troupe::kernels::cuda
