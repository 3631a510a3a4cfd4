// Sums rows with very many contributions by whole blocks, before the other rows are summed, because a few lanes would
// wait for memory at every contribution. Afterwards each of these rows has one contribution: its sum.
//
// The order is that of `sum_contributions`: one warp adds, one column per lane, what the other warps fetch. A block has
// 8 warps, handles 32 columns, and has two tiles of 112 contributions by 32 columns in shared memory:
//
//                 | first tile  | turn 0         | turn 1         | turn 2         |
//   warp 0        |             | adds tiles[0]  | adds tiles[1]  | adds tiles[0]  |
//   warps 1 to 7  | fetch to [0]| fetch to [1]   | fetch to [0]   | fetch to [1]   |
//
// There is a barrier between two columns of this table. Lane l of every warp handles column l of the 32. Fetching warp
// w, from 0 to 6, loads the tile's contributions w, w + 7, w + 14, ..., 16 of them at once.
//
// Long rows are found without a search. Every 256th of the sorted contributions is a place. A row of 256 or more
// contributions contains a place, and its first place names it: the blocks of this place, one per 32 columns, sum that
// row.
//
//   contribution   0               256             512             768
//   place          0               1               2               3
//   row            |--- a ---|---------- b, long ----------|- c -|---- d ..
//                                  ^ place 1 names b, place 2 does not

#include "kernels/cuda/cuda_table_gradient.hpp"

namespace troupe::kernels::cuda {
namespace {

/// The fewest contributions of a long row: each long row contains a multiple of this number, and the first one names
/// the row.
constexpr std::uint32_t long_row = 256;

constexpr unsigned fetching_warps = block_threads / 32 - 1;
constexpr int fetched_at_once = 16;  // by a warp
constexpr unsigned tile_rows = fetching_warps * fetched_at_once;
constexpr unsigned tile_columns = 32;

/// The contributions that the summing warp adds next.
struct tile {
  float numbers[tile_rows][tile_columns];
  float scales[tile_rows];
  std::uint32_t ranks[tile_rows];
};

/// Fetches a tile; called by all warps except the first. `column`: the lane's.
__device__ void fetch(const contribution* from, std::uint32_t count, std::size_t column, std::size_t dim, tile& to) {
  const unsigned warp = threadIdx.x / 32 - 1;
  const unsigned lane = threadIdx.x % 32;
  const std::uint32_t mine = (count + fetching_warps - 1 - warp) / fetching_warps;
  for_each_group<fetched_at_once>(std::uint32_t{0}, mine, [&]<int Count>(width<Count>, std::uint32_t first) {
    contribution some[Count];
    float numbers[Count];
    const auto place = [&](int a) { return warp + (first + static_cast<unsigned>(a)) * fetching_warps; };
    unrolled<Count>([&](int a) { some[a] = from[place(a)]; });
    unrolled<Count>([&](int a) { numbers[a] = column < dim ? some[a].row[column] : 0.0F; });
    unrolled<Count>([&](int a) {
      to.numbers[place(a)][lane] = numbers[a];
      if (lane > 0) return;
      to.scales[place(a)] = some[a].scale;
      to.ranks[place(a)] = some[a].rank;
    });
  });
}

/// The running sum of a column.
struct column_sum {
  float total = 0;
  float of_rank = 0;
  std::uint32_t rank = 0;

  __device__ void add(const tile& some, std::uint32_t count, unsigned column) {
    for (unsigned i = 0; i < count; ++i) {
      if (some.ranks[i] != rank) close_rank();
      rank = some.ranks[i];
      of_rank = fmaf(some.scales[i], some.numbers[i][column], of_rank);
    }
  }
  __device__ void close_rank() {
    total += of_rank;
    of_rank = 0;
  }
};

/// The contributions, and the addresses for the sums.
struct long_rows {
  const std::uint32_t* numbers;  ///< row numbers from 1, by contribution
  const std::uint32_t* starts;
  std::size_t count;  ///< number of contributions
  std::size_t dim;
  std::uint32_t* begins;
  std::uint32_t* ends;
  contribution* contributions;  ///< beyond `count`: one for each place
  float* sums;                  ///< one row for each place

  /// Returns whether this place names a long row.
  __device__ bool is_named_at(std::size_t place) const {
    const std::size_t at = place * long_row;
    if (at >= count) return false;
    const std::uint32_t number = numbers[at];
    const std::uint32_t begin = starts[number - 1];
    return starts[number] - begin >= long_row && begin + long_row > at;
  }
};

/// Sums `tile_columns` columns of the row that `place` names. Requires: all threads of the block call it.
__device__ void sum_row(const long_rows& all, std::size_t place, std::size_t chunk, tile (&tiles)[2]) {
  const std::uint32_t number = all.numbers[place * long_row];
  const std::uint32_t begin = all.starts[number - 1];
  const std::uint32_t end = all.starts[number];
  const bool fetches = threadIdx.x >= 32;
  const std::size_t column = chunk * tile_columns + threadIdx.x % 32;
  const auto size_at = [&](std::uint32_t at) { return end - at < tile_rows ? end - at : tile_rows; };
  column_sum sum;
  if (fetches) fetch(all.contributions + begin, size_at(begin), column, all.dim, tiles[0]);
  __syncthreads();
  unsigned turn = 0;
  for (std::uint32_t at = begin; at < end; at += tile_rows) {
    const std::uint32_t next = at + tile_rows;
    if (!fetches)
      sum.add(tiles[turn], size_at(at), threadIdx.x);
    else if (next < end)
      fetch(all.contributions + next, size_at(next), column, all.dim, tiles[1 - turn]);
    turn = 1 - turn;
    __syncthreads();
  }
  if (fetches) return;
  sum.close_rank();
  float* const row = all.sums + place * all.dim;
  if (column < all.dim) row[column] = sum.total;
  if (column > 0) return;
  all.contributions[all.count + place] = {row, 1.0F, 0};
  all.begins[number - 1] = static_cast<std::uint32_t>(all.count + place);
  all.ends[number - 1] = static_cast<std::uint32_t>(all.count + place + 1);
}

/// How many places a block checks; most name no long row.
constexpr std::size_t places_each = 8;

/// Runs `chunks` blocks for each group of `places_each` places.
__global__ void long_rows_kernel(long_rows all, std::size_t chunks) {
  __shared__ tile tiles[2];
  __shared__ bool is_named[places_each];
  const std::size_t first = blockIdx.x / chunks * places_each;
  if (threadIdx.x < places_each) is_named[threadIdx.x] = all.is_named_at(first + threadIdx.x);
  __syncthreads();
  for (std::size_t i = 0; i < places_each; ++i)
    if (is_named[i]) sum_row(all, first + i, blockIdx.x % chunks, tiles);
}

}  // namespace

std::size_t cuda_table_gradient::long_rows_bound() const { return (contribution_count_ + long_row - 1) / long_row; }

void cuda_table_gradient::sum_long_rows(std::size_t dim) {
  if (contribution_count_ < long_row || long_rows_summed_) return;
  long_rows_summed_ = true;
  const std::size_t chunks = (dim + tile_columns - 1) / tile_columns;
  float* const sums = long_sums_.make(stream_, long_rows_bound() * dim);
  const long_rows all{run_numbers_.data(), starts_.data(), contribution_count_,   dim,
                      begins_.data(),      ends_.data(),   contributions_.data(), sums};
  const std::size_t groups = (long_rows_bound() + places_each - 1) / places_each;
  launch(long_rows_kernel, groups * chunks, stream_, all, chunks);
}

}  // namespace troupe::kernels::cuda
