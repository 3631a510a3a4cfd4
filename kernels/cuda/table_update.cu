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

/// The most blocks that update a table; each updates many rows.
constexpr std::size_t update_blocks_max = 4096;

/// An optimizer as a type, for kernels compiled for it: they need fewer registers, so that more rows are processed at
/// once. Tables of one width with several optimizers need one launch for each.
template <optimizer_kind Kind>
using kind_of = std::integral_constant<optimizer_kind, Kind>;
constexpr std::size_t optimizer_kinds = 4;

template <int Width, int Packs>
__device__ double squares_of(const lane_columns<Width, Packs>& x) {
  double sum = 0;
  for (const auto& some : x.at)
    for (const float number : some.at) sum += static_cast<double>(number) * static_cast<double>(number);
  return sum;
}

template <int Width, int Packs>
__global__ void norm_kernel(grouped_rows from, std::size_t dim, float scale, lane_share share, double* norms) {
  const row_lanes lanes = row_lanes::of(share);
  const std::size_t run = share.item();
  if (run >= *from.count) return;
  double sum = 0;
  for (std::size_t column = 0; column < dim; column += lanes.chunk<Width, Packs>())
    sum += squares_of(row_gradient<Width, Packs>(from, from.begins[run], from.ends[run], scale, lanes, column, dim));
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

/// A row to update, and the range of its contributions. An empty range means that the row is untouched.
struct row_place {
  std::int64_t row = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  __device__ bool is_touched() const { return begin < end; }

  static __device__ row_place touched(const grouped_rows& from, std::size_t number) {
    return {from.rows[number], from.begins[number], from.ends[number]};
  }
  static __device__ row_place any(const grouped_rows& from, std::int64_t row) {
    const std::uint32_t at = rows_below(from, row);
    if (at < *from.count && from.rows[at] == row) return touched(from, at);
    return {row, 0, 0};
  }
};

/// The tables of a step, passed by value like `launch_parts`.
struct step_tables {
  std::int64_t first_rows[gradient_tables_max];
  table_step steps[gradient_tables_max];
  unsigned count;
};

/// The update of one row of the table by a group of lanes.
template <int Width, int Packs, class Number, optimizer_kind Kind>
struct row_update {
  using columns = lane_columns<Width, Packs>;
  static constexpr bool is_rowwise = Kind == optimizer_kind::rowwise_adagrad;

  const table_step& how;
  const grouped_rows& from;
  row_place place;
  row_lanes lanes;
  std::size_t dim;
  std::size_t number;  ///< the row's number in its table

  __device__ update_constants constants() const {
    update_constants c = how.constants;
    c.kind = Kind;  // so that the compiler knows it
    return c;
  }
  __device__ Number* weights() const { return static_cast<Number*>(how.weights); }
  __device__ std::size_t base() const { return number * dim; }

  /// Prefetches the memory that `step` reads first.
  __device__ void prefetch_row() const {
    if (place.is_touched()) prefetch(from.contributions + place.begin);
    for_columns<Width, Packs>(lanes, 0, dim, [&](int, std::size_t at) {
      prefetch(weights() + base() + at);
      if (has_first(constants())) prefetch(how.state.first + base() + at);
      if (has_second(constants())) prefetch(how.state.second + base() + at);
    });
    if (is_rowwise) prefetch(how.state.first + number);
  }

  /// Returns false, with the row unchanged, if its gradient is not finite.
  __device__ bool step() const {
    if constexpr (Packs == 1)
      if (dim <= lanes.chunk<Width, Packs>()) return step_at_once();
    return step_by_chunks();
  }

 private:
  /// For a row of one chunk. Loads the weights and state before the gradient, which takes longer to arrive.
  __device__ bool step_at_once() const {
    weight_pack<Number, Width> own[Packs];
    for_columns<Width, Packs>(lanes, 0, dim, [&](int p, std::size_t at) {
      own[p] = load_weights<Width>(constants(), base() + at, weights(), how.state);
    });
    const float sum = is_rowwise && lanes.lane == 0 ? how.state.first[number] : 0.0F;
    columns grad = gradient(0);
    if (!lanes.all(are_finite(grad))) return false;
    if (!is_rowwise) {
      for_columns<Width, Packs>(lanes, 0, dim, [&](int p, std::size_t at) {
        optimizer_step(constants(), own[p], grad.at[p]);
        store_weights(constants(), own[p], base() + at, weights(), how.state);
      });
      return true;
    }
    for_columns<Width, Packs>(lanes, 0, dim, [&](int p, std::size_t) { decay(own[p].weight, grad.at[p]); });
    const float rate = row_rate(sum, lanes.sum(squares_of(grad)));
    for_columns<Width, Packs>(lanes, 0, dim, [&](int p, std::size_t at) {
      add_to_weights(-rate, grad.at[p], own[p].weight);
      store_pack(own[p].weight, weights() + base() + at);
    });
    return true;
  }

  /// Rows of several chunks are summed twice: all chunks must be known to be finite before one is updated.
  __device__ bool step_by_chunks() const {
    const std::size_t chunk = lanes.chunk<Width, Packs>();
    const float sum = is_rowwise && lanes.lane == 0 ? how.state.first[number] : 0.0F;
    bool finite = true;
    double squares = 0;
    columns grad;
    for (std::size_t column = 0; column < dim; column += chunk) {
      grad = gradient(column);
      finite = finite && are_finite(grad);
      if (!is_rowwise) continue;
      decay(column, grad);
      squares += squares_of(grad);
    }
    if (!lanes.all(finite)) return false;
    const float rate = is_rowwise ? row_rate(sum, lanes.sum(squares)) : 0.0F;
    for (std::size_t column = 0; column < dim; column += chunk) {
      if (dim > chunk) {
        grad = gradient(column);
        if (is_rowwise) decay(column, grad);
      }
      for_columns<Width, Packs>(lanes, column, dim, [&](int p, std::size_t at) {
        if (!is_rowwise) return optimizer_step(constants(), base() + at, weights(), how.state, grad.at[p]);
        auto weight = load_pack<Width>(weights() + base() + at);
        add_to_weights(-rate, grad.at[p], weight);
        store_pack(weight, weights() + base() + at);
      });
    }
    return true;
  }

  __device__ columns gradient(std::size_t column) const {
    return row_gradient<Width, Packs>(from, place.begin, place.end, how.scale, lanes, column, dim);
  }

  __device__ bool are_finite(const columns& grad) const {
    bool finite = true;
    for (const auto& some : grad.at)
      for (const float one : some.at) finite = finite && is_finite(one);
    return finite;
  }

  // Adds weight decay; for row-wise Adagrad.
  __device__ void decay(const pack<Number, Width>& weight, pack<float, Width>& grad) const {
    unrolled<Width>([&](int k) { grad.at[k] = decayed(constants(), grad.at[k], to_float(weight.at[k])); });
  }
  __device__ void decay(std::size_t column, columns& grad) const {
    for_columns<Width, Packs>(lanes, column, dim, [&](int p, std::size_t at) {
      decay(load_pack<Width>(static_cast<const Number*>(weights()) + base() + at), grad.at[p]);
    });
  }

  /// Adds `squares` to the row's accumulator, which lane 0 passes as `sum`, and returns the row's learning rate.
  __device__ float row_rate(float sum, double squares) const {
    float rate = 0;
    if (lanes.lane == 0) {
      sum += static_cast<float>(squares / static_cast<double>(dim));
      how.state.first[number] = sum;
      const double divisor = sqrt(static_cast<double>(sum)) + static_cast<double>(constants().eps);
      rate = static_cast<float>(static_cast<double>(constants().lr) / divisor);
    }
    return __shfl_sync(lanes.mask, rate, 0, static_cast<int>(lanes.count));
  }
};

/// Updates the touched rows or, if `every` is not 0, rows 0 .. every-1. Each block stores its first bad row.
///
/// A row's number, its contributions and their gradients are read in turn, each address depending on the previous read.
/// So while one row is updated, the next one's memory is prefetched, and the number of the one after that is read.
template <int Width, int Packs, class Number, optimizer_kind Kind>
__global__ void __launch_bounds__(block_threads, Packs == 1 && Kind != optimizer_kind::adam ? 3 : 2)
    update_kernel(const __grid_constant__ step_tables tables, grouped_rows from, std::size_t every, lane_share share,
                  std::size_t dim, std::uint64_t* bad_rows) {
  using update = row_update<Width, Packs, Number, Kind>;
  const row_lanes lanes = row_lanes::of(share);
  const std::size_t count = every > 0 ? every : *from.count;
  const std::size_t at_once = share.items_at_once();
  const auto place_of = [&](std::size_t i) {
    if (i >= count) return row_place{};
    return every > 0 ? row_place::any(from, static_cast<std::int64_t>(i)) : row_place::touched(from, i);
  };
  const auto update_of = [&](const row_place& place) {
    const unsigned table = last_at_most(tables.first_rows, tables.count, place.row);
    return update{
        tables.steps[table], from, place, lanes, dim, static_cast<std::size_t>(place.row - tables.first_rows[table])};
  };
  std::uint64_t bad = least_of::neutral;
  const std::size_t first = share.item();
  row_place next = place_of(first);
  row_place after = place_of(first + at_once);
  for (std::size_t i = first; i < count; i += at_once) {
    const update one = update_of(next);
    next = after;
    after = place_of(i + 2 * at_once);
    if (i + at_once < count)
      if (const update other = update_of(next); other.how.weights != nullptr) other.prefetch_row();
    if (one.how.weights == nullptr || (update::is_rowwise && !one.place.is_touched())) continue;
    if (!one.step() && bad == least_of::neutral) bad = static_cast<std::uint64_t>(one.place.row);
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
  std::uint64_t* const bad_rows = bad_rows_.make(stream_, update_blocks_max * optimizer_kinds + 1);
  std::size_t blocks = 0;
  const auto update = [&]<optimizer_kind Kind>(kind_of<Kind>) {
    bool has_some = false;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      tables.steps[i] = steps[i];
      if (steps[i].constants.kind != Kind) tables.steps[i].weights = nullptr;
      has_some = has_some || tables.steps[i].weights != nullptr;
    }
    if (!has_some) return;
    with_numbers(table_view(nullptr, type), [&]<class Number>(Number*) {
      const bool fit = std::all_of(steps.begin(), steps.end(), [](const table_step& step) {
        return fits_packs<4>(static_cast<const Number*>(step.weights)) && fits_packs<4>(step.state.first) &&
               fits_packs<4>(step.state.second);
      });
      with_shape(fit, dim, [&](auto columns, auto packs) {
        const lane_share share = share_for(dim, columns);
        const std::size_t more = share.blocks(bound, update_blocks_max);
        launch(update_kernel<columns, packs, Number, Kind>, more, stream_, tables, grouped(), every, share, dim,
               bad_rows + 1 + blocks);
        blocks += more;
      });
    });
  };
  update(kind_of<optimizer_kind::sgd>());
  update(kind_of<optimizer_kind::adagrad>());
  update(kind_of<optimizer_kind::adam>());
  update(kind_of<optimizer_kind::rowwise_adagrad>());
  launch(finish_reduction<least_of>, 1, stream_, bad_rows + 1, blocks, least_of::neutral, bad_rows);
  bad_rows_on_host_.resize(stream_, applies_max);
  stream_.download(bad_rows, bad_rows_on_host_.data() + slot, sizeof(std::int64_t));
}

std::int64_t cuda_table_gradient::bad_row() {
  const std::size_t slot = asked_++ % applies_max;
  return has_bad_row_[slot] ? bad_rows_on_host_.data()[slot] : -1;
}

}  // namespace troupe::kernels::cuda
