// Uses tables' gradients row by row: norms, and the optimizer step. Gradients of rows are never stored. A warp of
// `update_kernel` with rows of 64 numbers (row_sums.hpp: 16 lanes a row, 4 columns a lane):
//
//   lane      0 .............. 15 | 16 ............. 31
//   row       number i            | number i + 1           of the touched rows, or of all rows
//   sum       each lane sums its columns of the row's contributions
//   vote      are all columns of the row finite? If not, the row stays as it is, and is the lanes' bad row
//   step      each lane updates its columns of the weights and their state
//   next      both rows move on by as many rows as the grid takes at once
//
// At the end the threads of a block combine their bad rows to the least. A row of several chunks is summed twice: all
// chunks before the vote, and each once more before its step.

#include <algorithm>

#include "kernels/cuda/cuda_table_gradient.hpp"
#include "kernels/cuda/launch_parts.hpp"
#include "kernels/cuda/optimizer_steps.hpp"
#include "kernels/cuda/reduce.hpp"

namespace troupe::kernels::cuda {
namespace {

/// Most blocks that update a table; each updates many rows.
constexpr std::size_t update_blocks_max = 4096;

template <int kWidth, int kPacks>
__device__ double squares_of(const lane_columns<kWidth, kPacks>& x) {
  double sum = 0;
  for (const auto& some : x.at)
    for (const float number : some.at) sum += static_cast<double>(number) * static_cast<double>(number);
  return sum;
}

template <int kWidth, int kPacks>
__global__ void norm_kernel(grouped_rows from, std::size_t dim, float scale, lane_share share, double* norms) {
  const row_lanes lanes = row_lanes::of(share);
  const std::size_t run = share.item();
  if (run >= *from.count) return;
  double sum = 0;
  for (std::size_t column = 0; column < dim; column += lanes.chunk<kWidth, kPacks>())
    sum += squares_of(row_gradient<kWidth, kPacks>(from, static_cast<std::uint32_t>(run), scale, lanes, column, dim));
  sum = lanes.sum(sum);
  if (lanes.lane == 0) norms[run] = sum;
}

/// Returns how many of the distinct rows are below `row`.
__device__ std::uint32_t rows_below(const grouped_rows& from, std::int64_t row) {
  std::uint32_t begin = 0;
  std::uint32_t end = *from.count;
  while (begin < end) {
    const std::uint32_t middle = begin + (end - begin) / 2;
    if (from.rows[middle] < row)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin;
}

/// The first rows of tables, and the end of the last one.
struct table_rows {
  std::int64_t firsts[gradient_tables_max + 1];
};

/// ends[t] = the end of table t's rows among the distinct ones. Requires: one block.
__global__ void table_ends_kernel(const __grid_constant__ table_rows tables, unsigned count, grouped_rows from,
                                  std::uint32_t* ends) {
  if (threadIdx.x < count) ends[threadIdx.x] = rows_below(from, tables.firsts[threadIdx.x + 1]);
}

constexpr std::uint32_t untouched = ~std::uint32_t{0};

/// Returns the index of `row` among the distinct ones, or `untouched`.
__device__ std::uint32_t find_row(const grouped_rows& from, std::int64_t row) {
  const std::uint32_t at = rows_below(from, row);
  return at < *from.count && from.rows[at] == row ? at : untouched;
}

/// The tables of a step, passed by value like `launch_parts`.
struct step_tables {
  std::int64_t first_rows[gradient_tables_max];
  table_step steps[gradient_tables_max];
  unsigned count;
};

/// The update of one row of the table by a group of lanes.
template <int kWidth, int kPacks, class Number>
struct row_update {
  using columns = lane_columns<kWidth, kPacks>;

  const update_constants& c;
  const grouped_rows& from;
  std::uint32_t run;
  float scale;
  row_lanes lanes;
  std::size_t dim;
  Number* weights;
  optimizer_state_view state;
  std::size_t base;  ///< the row's number in its table times `dim`

  /// Returns false, with the row unchanged, if its gradient is not finite.
  __device__ bool step() const {
    const std::size_t chunk = lanes.chunk<kWidth, kPacks>();
    bool finite = true;
    double squares = 0;
    columns grad;
    // Rows of several chunks are summed twice: all chunks must be known to be finite before one is updated.
    for (std::size_t column = 0; column < dim; column += chunk) {
      grad = gradient(column);
      for (const auto& some : grad.at)
        for (const float number : some.at) finite = finite && is_finite(number);
      if (c.kind != optimizer_kind::rowwise_adagrad) continue;
      decay(column, grad);
      squares += squares_of(grad);
    }
    if (!lanes.all(finite)) return false;
    const float rate = c.kind == optimizer_kind::rowwise_adagrad ? row_rate(lanes.sum(squares)) : 0.0F;
    for (std::size_t column = 0; column < dim; column += chunk) {
      if (dim > chunk) grad = gradient(column);
      if (c.kind == optimizer_kind::rowwise_adagrad) {
        if (dim > chunk) decay(column, grad);
        row_step(column, rate, grad);
      } else {
        for_columns<kWidth, kPacks>(lanes, column, dim, [&](int p, std::size_t at) {
          optimizer_step(c, base + at, weights, state, grad.at[p]);
        });
      }
    }
    return true;
  }

  __device__ columns gradient(std::size_t column) const {
    if (run == untouched) return {};
    return row_gradient<kWidth, kPacks>(from, run, scale, lanes, column, dim);
  }

  // Adds weight decay; for row-wise Adagrad.
  __device__ void decay(std::size_t column, columns& grad) const {
    for_columns<kWidth, kPacks>(lanes, column, dim, [&](int p, std::size_t at) {
      const auto weight = load_pack<kWidth>(weights + base + at);
      unrolled<kWidth>([&](int k) { grad.at[p].at[k] = decayed(c, grad.at[p].at[k], to_float(weight.at[k])); });
    });
  }

  /// Adds `squares` to the row's accumulator and returns the row's learning rate.
  __device__ float row_rate(double squares) const {
    float rate = 0;
    if (lanes.lane == 0) {
      float& sum = state.first[base / dim];
      sum += static_cast<float>(squares / static_cast<double>(dim));
      const double divisor = sqrt(static_cast<double>(sum)) + static_cast<double>(c.eps);
      rate = static_cast<float>(static_cast<double>(c.lr) / divisor);
    }
    return __shfl_sync(lanes.mask, rate, 0, static_cast<int>(lanes.count));
  }

  __device__ void row_step(std::size_t column, float rate, const columns& grad) const {
    for_columns<kWidth, kPacks>(lanes, column, dim, [&](int p, std::size_t at) {
      auto weight = load_pack<kWidth>(weights + base + at);
      unrolled<kWidth>(
          [&](int k) { store_float(fmaf(-rate, grad.at[p].at[k], to_float(weight.at[k])), weight.at[k]); });
      store_pack(weight, weights + base + at);
    });
  }
};

/// Updates the touched rows or, if `every` is not 0, rows 0 .. every-1. Each block stores its first bad row.
template <int kWidth, int kPacks, class Number>
__global__ void __launch_bounds__(block_threads, kPacks == 1 ? 3 : 2)
    update_kernel(const __grid_constant__ step_tables tables, grouped_rows from, std::size_t every, lane_share share,
                  std::size_t dim, std::uint64_t* bad_rows) {
  const row_lanes lanes = row_lanes::of(share);
  const std::size_t count = every > 0 ? every : *from.count;
  std::uint64_t bad = least_of::neutral;
  for (std::size_t i = share.item(); i < count; i += share.items_at_once()) {
    const std::int64_t row = every > 0 ? static_cast<std::int64_t>(i) : from.rows[i];
    const std::uint32_t run = every > 0 ? find_row(from, row) : static_cast<std::uint32_t>(i);
    const unsigned table = last_at_most(tables.first_rows, tables.count, row);
    const table_step& step = tables.steps[table];
    if (step.weights == nullptr) continue;
    if (run == untouched && step.constants.kind == optimizer_kind::rowwise_adagrad) continue;
    const std::size_t base = static_cast<std::size_t>(row - tables.first_rows[table]) * dim;
    const row_update<kWidth, kPacks, Number> update{
        step.constants, from, run, step.scale, lanes, dim, static_cast<Number*>(step.weights), step.state, base};
    if (!update.step() && bad == least_of::neutral) bad = static_cast<std::uint64_t>(row);
  }
  store_part<least_of>(bad, bad_rows);
}

}  // namespace

std::span<const std::span<const double>> cuda_table_gradient::norms_by_table(std::size_t dim, float scale) {
  sum_long_rows(dim);
  double* const norms = norms_.make(stream_, rows_bound());
  with_shape(true, dim, [&](auto columns, auto packs) {
    const lane_share share = share_for(dim, columns);
    launch(norm_kernel<columns, packs>, share.blocks(rows_bound()), stream_, grouped(), dim, scale, share, norms);
  });
  const std::size_t tables = first_rows_.size();
  table_rows rows{};
  std::copy(first_rows_.begin(), first_rows_.end(), rows.firsts);
  rows.firsts[tables] = row_count_;
  std::uint32_t* const ends = table_ends_.make(stream_, tables);
  launch(table_ends_kernel, 1, stream_, rows, static_cast<unsigned>(tables), grouped(), ends);
  auto* const host_ends = staging<std::uint32_t>(tables);
  stream_.download(ends, host_ends, tables * sizeof *host_ends);
  stream_.synchronize();
  const std::vector<std::uint32_t> found(host_ends, host_ends + tables);
  const std::size_t count = found.back();
  auto* const host_norms = staging<double>(count);
  stream_.download(norms, host_norms, count * sizeof(double));
  stream_.synchronize();
  norms_by_table_.clear();
  for (std::uint32_t begin = 0; const std::uint32_t end : found) {
    norms_by_table_.emplace_back(host_norms + begin, end - begin);
    begin = end;
  }
  return norms_by_table_;
}

void cuda_table_gradient::apply(std::size_t dim, row_dtype type, std::span<const table_step> steps, bool every_row) {
  const std::size_t every = every_row ? static_cast<std::size_t>(row_count_) : 0;
  const std::size_t bound = every > 0 ? every : rows_bound();
  const std::size_t slot = applies_++ % applies_max;
  has_bad_row_[slot] = bound > 0;
  if (bound == 0) return;
  sum_long_rows(dim);
  step_tables tables{};
  tables.count = static_cast<unsigned>(steps.size());
  std::copy(first_rows_.begin(), first_rows_.end(), tables.first_rows);
  std::copy(steps.begin(), steps.end(), tables.steps);
  std::uint64_t* const bad_rows = bad_rows_.make(stream_, update_blocks_max + 1);
  std::size_t blocks = 0;
  with_numbers(table_view(nullptr, type), [&]<class Number>(Number*) {
    const bool fit = std::all_of(steps.begin(), steps.end(), [](const table_step& step) {
      return fits_packs<4>(static_cast<const Number*>(step.weights)) && fits_packs<4>(step.state.first) &&
             fits_packs<4>(step.state.second);
    });
    with_shape(fit, dim, [&](auto columns, auto packs) {
      const lane_share share = share_for(dim, columns);
      blocks = share.blocks(bound, update_blocks_max);
      launch(update_kernel<columns, packs, Number>, blocks, stream_, tables, grouped(), every, share, dim,
             bad_rows + 1);
    });
  });
  launch(finish_reduction<least_of>, 1, stream_, bad_rows + 1, blocks, least_of::neutral, bad_rows);
  bad_rows_on_host_.resize(stream_, applies_max);
  stream_.download(bad_rows, bad_rows_on_host_.data() + slot, sizeof(std::int64_t));
}

std::int64_t cuda_table_gradient::bad_row() {
  const std::size_t slot = asked_++ % applies_max;
  return has_bad_row_[slot] ? bad_rows_on_host_.data()[slot] : -1;
}

}  // namespace troupe::kernels::cuda
