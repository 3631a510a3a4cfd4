// The gradient of a table grouped by row, as kernels see it, and the sum of one row.
//
// Some lanes of a warp, a power of two, share a row; each takes `kWidth` columns at a time, `kPacks` times. A chunk of
// columns is what they take together.
//
// A row of 512 contributions or more, over all ranks, would keep its lanes busy for long. Its contributions are cut
// into pieces of 256, of which the last one has up to 511, and each piece is summed by lanes of its own, as if it were
// all of the row; the row's sum is that of its pieces, in order. The sums of other rows have the order of
// `update_rows`.

#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/packs.hpp"

namespace troupe::kernels::cuda {

/// scale * row[0 .. dim), part of the gradient of a row of the table.
struct alignas(16) contribution {
  const float* row;
  float scale;
  std::uint32_t rank;
};

/// The distinct rows, ascending, and the contributions to each in order: those of rows[i] are
/// contributions[starts[i] .. starts[i+1]).
struct grouped_rows {
  const std::int64_t* rows = nullptr;
  const std::uint32_t* starts = nullptr;
  const std::uint32_t* count = nullptr;  // of distinct rows
  const contribution* contributions = nullptr;
  const float* pieces = nullptr;  // sums of pieces, [pieces, dim]
};

inline constexpr std::uint32_t piece_length = 256;

/// Into how many pieces a row is cut; 1: it is not.
inline __device__ std::uint32_t pieces_of(std::uint32_t begin, std::uint32_t end) {
  const std::uint32_t whole = (end - begin) / piece_length;
  return whole < 1 ? 1 : whole;
}

/// Where the sum of a row's first piece is; the others follow. Pieces that are this far apart do not share a place.
inline __device__ std::uint32_t first_piece_of(std::uint32_t begin) { return begin / piece_length; }

/// This thread's place among those that share a row.
struct row_lanes {
  unsigned count;  ///< of the row
  unsigned lane;   ///< this one's number
  unsigned mask;   ///< of the row, in the warp

  static __device__ row_lanes of(lane_share share) {
    const unsigned first = threadIdx.x % 32 - share.lane();
    return {share.lanes(), share.lane(), (0xffffffffU >> (32 - share.lanes())) << first};
  }

  template <int kWidth, int kPacks>
  __device__ std::size_t chunk() const {
    return std::size_t{count} * kWidth * kPacks;
  }

  __device__ bool all(bool mine) const {
    int yes = mine ? 1 : 0;
    for (unsigned apart = count / 2; apart > 0; apart /= 2) yes &= __shfl_xor_sync(mask, yes, apart);
    return yes != 0;
  }

  /// The same bits on every lane.
  __device__ double sum(double mine) const {
    for (unsigned apart = count / 2; apart > 0; apart /= 2) mine += __shfl_xor_sync(mask, mine, apart);
    return mine;
  }
};

/// A lane's columns of a chunk; those beyond the row stay zero.
template <int kWidth, int kPacks>
struct lane_columns {
  pack<float, kWidth> at[kPacks];
};

/// Calls body(p, column) for the lane's packs that lie in the row, of the chunk that begins at `begin`.
template <int kWidth, int kPacks, class Body>
__device__ void for_columns(row_lanes lanes, std::size_t begin, std::size_t dim, const Body& body) {
  unrolled<kPacks>([&](int p) {
    const std::size_t column = begin + (std::size_t{lanes.count} * static_cast<unsigned>(p) + lanes.lane) * kWidth;
    if (column < dim) body(p, column);
  });
}

/// The sum of contributions begin .. end of one row, rank by rank, in a chunk that begins at `column`.
template <int kWidth, int kPacks>
__device__ lane_columns<kWidth, kPacks> sum_contributions(const grouped_rows& from, std::uint32_t begin,
                                                          std::uint32_t end, row_lanes lanes, std::size_t column,
                                                          std::size_t dim) {
  constexpr int ahead = 4 / kPacks;  // contributions that are on their way at once
  lane_columns<kWidth, kPacks> total{};
  lane_columns<kWidth, kPacks> of_rank{};
  std::uint32_t rank = 0;
  const auto close_rank = [&] {
    unrolled<kPacks>([&](int p) {
      unrolled<kWidth>([&](int k) { total.at[p].at[k] += of_rank.at[p].at[k]; });
      of_rank.at[p] = {};
    });
  };
  for_each_group<ahead>(begin, end, [&]<int kCount>(width<kCount>, std::uint32_t i) {
    contribution some[kCount];
    lane_columns<kWidth, kPacks> rows[kCount];
    unrolled<kCount>([&](int a) { some[a] = from.contributions[i + a]; });
    for_columns<kWidth, kPacks>(lanes, column, dim, [&](int p, std::size_t c) {
      unrolled<kCount>([&](int a) { rows[a].at[p] = load_pack<kWidth>(some[a].row + c); });
    });
    unrolled<kCount>([&](int a) {
      if (some[a].rank != rank) close_rank();
      rank = some[a].rank;
      for_columns<kWidth, kPacks>(lanes, column, dim, [&](int p, std::size_t) {
        unrolled<kWidth>(
            [&](int k) { of_rank.at[p].at[k] = fmaf(some[a].scale, rows[a].at[p].at[k], of_rank.at[p].at[k]); });
      });
    });
  });
  close_rank();
  return total;
}

/// The sum of a row's pieces, in order.
template <int kWidth, int kPacks>
__device__ lane_columns<kWidth, kPacks> sum_pieces(const float* pieces, std::uint32_t count, row_lanes lanes,
                                                   std::size_t column, std::size_t dim) {
  lane_columns<kWidth, kPacks> total{};
  for (std::uint32_t piece = 0; piece < count; ++piece) {
    for_columns<kWidth, kPacks>(lanes, column, dim, [&](int p, std::size_t c) {
      const auto part = load_pack<kWidth>(pieces + piece * dim + c);
      unrolled<kWidth>([&](int k) { total.at[p].at[k] += part.at[k]; });
    });
  }
  return total;
}

/// `scale` times the gradient of row number `run` of those that are grouped, in a chunk that begins at `column`.
template <int kWidth, int kPacks>
__device__ lane_columns<kWidth, kPacks> row_gradient(const grouped_rows& from, std::uint32_t run, float scale,
                                                     row_lanes lanes, std::size_t column, std::size_t dim) {
  const std::uint32_t begin = from.starts[run];
  const std::uint32_t end = from.starts[run + 1];
  const std::uint32_t pieces = pieces_of(begin, end);
  auto grad = pieces > 1
                  ? sum_pieces<kWidth, kPacks>(from.pieces + first_piece_of(begin) * dim, pieces, lanes, column, dim)
                  : sum_contributions<kWidth, kPacks>(from, begin, end, lanes, column, dim);
  unrolled<kPacks>([&](int p) { unrolled<kWidth>([&](int k) { grad.at[p].at[k] *= scale; }); });
  return grad;
}

}  // namespace troupe::kernels::cuda
