// Optimizer updates: dense, and by row. A row's gradient is summed and applied in one pass, so that it stays in the L1
// cache.

#include "kernels/optimizer.hpp"

#include <algorithm>
#include <atomic>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/cpu/cpu_stream.hpp"
#include "kernels/cpu/prefetch.hpp"
#include "kernels/idle_threads.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer.cpp"
#include "hwy/foreach_target.h"  // must precede the next includes

#include "hwy/highway.h"
#include "kernels/cpu/blocks-inl.hpp"
#include "kernels/cpu/optimizer_steps-inl.hpp"
#include "kernels/cpu/row_numbers-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

/// The sorted occurrences of one row.
struct run {
  const occurrence* begin;
  const occurrence* end;
};

HWY_INLINE run run_of(const row_gradients& gradients, std::size_t i) {
  const occurrence* const all = gradients.occurrences.data();
  return {all + gradients.starts[i], all + gradients.starts[i + 1]};
}

/// Sums one block of columns of a row's gradient. Returns false if one of them is NaN or Inf.
template <class D, std::size_t Vectors>
HWY_INLINE bool sum_block(D d, const row_gradients& gradients, run row, std::size_t column,
                          hn::Vec<D> (&grad)[Vectors]) {
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t v = 0; v < Vectors; ++v) grad[v] = hn::Zero(d);
  for (const occurrence* o = row.begin; o != row.end;) {
    const std::uint32_t rank = o->rank;
    const float* const source = gradients.sources[rank] + column;
    const std::size_t stride = gradients.source_strides[rank];
    hn::Vec<D> part[Vectors];
    for (std::size_t v = 0; v < Vectors; ++v) part[v] = hn::Zero(d);
    for (; o != row.end && o->rank == rank; ++o) {
      const float* const from = source + o->row * stride;
      for (std::size_t v = 0; v < Vectors; ++v)
        part[v] = hn::MulAdd(hn::Set(d, o->scale), hn::LoadU(d, from + v * lanes), part[v]);
    }
    for (std::size_t v = 0; v < Vectors; ++v) grad[v] = hn::Add(grad[v], part[v]);
  }
  auto probe = hn::Zero(d);
  for (std::size_t v = 0; v < Vectors; ++v) {
    grad[v] = hn::Mul(hn::Set(d, gradients.scale), grad[v]);
    probe = hn::MulAdd(hn::Zero(d), grad[v], probe);  // 0*x is NaN for NaN and Inf
  }
  return hn::AllFalse(d, hn::IsNaN(probe));
}

/// Sums columns [column, column + count) of a row's gradient. Returns false if one of them is NaN or Inf. Not inlined:
/// it is long, and every optimizer and row type would get a copy.
HWY_NOINLINE bool sum_columns(const row_gradients& gradients, run row, std::size_t column, std::size_t count,
                              float* out) {
  bool finite = true;
  for_each_block<8>(count, [&](auto d, auto vector_count, std::size_t at) HWY_ATTR {
    hn::Vec<decltype(d)> grad[vector_count];
    finite &= sum_block(d, gradients, row, column + at, grad);
    for (std::size_t v = 0; v < vector_count; ++v) hn::StoreU(grad[v], d, out + at + v * hn::Lanes(d));
  });
  return finite;
}

/// Updates weights [base, base + count) with grad[0 .. count).
template <class Step>
HWY_INLINE void update_span(const Step& step, std::size_t base, std::size_t count, const float* grad) {
  for_each_vector(count, [&](auto d, std::size_t i) HWY_ATTR { step(d, base + i, hn::LoadU(d, grad + i)); });
}

/// Takes a step by a rule. `state`: these weights'.
void update_by_rule(const update_constants& c, std::size_t count, float* weights, optimizer_state_view state,
                    const float* grad) {
  if (count == 0) return;
  const auto part = [count](float* numbers) { return std::span(numbers, numbers == nullptr ? 0 : count); };
  c.own.rule->update({{weights, count}, {grad, count}, part(state.first), part(state.second), c.own.lr, c.own.step});
}

void dense(const update_constants& c, std::size_t count, float* weights, optimizer_state_view state,
           const float* grad) {
  if (c.kind == optimizer_kind::own) return update_by_rule(c, count, weights, state, grad);
  with_step(c, weights, state, [&](const auto& step) HWY_ATTR { update_span(step, 0, count, grad); });
}

/// Updates rows that are exactly one block wide; the gradient stays in registers.
template <class D, std::size_t Vectors>
struct block_row {
  /// Updates the row that starts at `base` in the table. Returns false, with the row unchanged, if its gradient is not
  /// finite.
  template <class Step>
  HWY_INLINE bool update(const Step& step, std::size_t base, const row_gradients& gradients, run row) {
    const D d;
    hn::Vec<D> grad[Vectors];
    if (!sum_block(d, gradients, row, 0, grad)) return false;
    for (std::size_t v = 0; v < Vectors; ++v) step(d, base + v * hn::Lanes(d), grad[v]);
    return true;
  }
};

/// Updates rows of any width in chunks; a chunk stays in the L1 cache together with the row.
class chunked_row {
 public:
  explicit chunked_row(std::size_t dim) : dim_(dim) {}

  /// See `block_row::update`.
  template <class Step>
  HWY_INLINE bool update(const Step& step, std::size_t base, const row_gradients& gradients, run row) {
    // Rows of several chunks are summed twice: all chunks must be known to be finite before one is updated.
    for (std::size_t at = 0; dim_ > chunk_floats && at < dim_; at += chunk_floats)
      if (!sum_columns(gradients, row, at, std::min(chunk_floats, dim_ - at), chunk_)) return false;
    for (std::size_t at = 0; at < dim_; at += chunk_floats) {
      const std::size_t count = std::min(chunk_floats, dim_ - at);
      if (!sum_columns(gradients, row, at, count, chunk_)) return false;
      update_span(step, base + at, count, chunk_);
    }
    return true;
  }

 private:
  static constexpr std::size_t chunk_floats = 2048;

  std::size_t dim_;
  HWY_ALIGN float chunk_[chunk_floats];
};

/// Prefetches the weights and the state of the row at `base`, up to `bytes` of each.
template <class Step>
HWY_INLINE void prefetch_state(const Step& step, std::size_t base, std::size_t dim, std::size_t bytes) {
  prefetch_row(step.weights + base, std::min(bytes, dim * sizeof(*step.weights)));
  const std::size_t state_bytes = std::min(bytes, dim * sizeof(float));
  if constexpr (Step::state_count > 0) prefetch_row(step.state.first + base, state_bytes);
  if constexpr (Step::state_count > 1) prefetch_row(step.state.second + base, state_bytes);
}

/// Updates the touched rows. Returns the index in `gradients.rows` of the first row with a NaN or Inf, or their count.
template <class Step, class Row>
std::size_t update_touched(const Step& step, std::size_t dim, const row_gradients& gradients, Row row) {
  const prefetch_plan plan(dim * (sizeof(*step.weights) + Step::state_count * sizeof(float)));
  const std::size_t count = gradients.rows.size();
  const auto base_of = [&](std::size_t i) { return static_cast<std::size_t>(gradients.rows[i]) * dim; };
  for (std::size_t i = 0; i < count; ++i) {
    if (i + plan.rows_ahead < count) prefetch_state(step, base_of(i + plan.rows_ahead), dim, plan.bytes);
    if (!row.update(step, base_of(i), gradients, run_of(gradients, i))) return i;
  }
  return count;
}

/// Calls `update_touched` with the row class that fits `dim`.
template <std::size_t Lanes, class Step>
std::size_t update_touched_as(const Step& step, std::size_t dim, const row_gradients& gradients) {
  if constexpr (Lanes < 4 || !Step::in_f32) {
    return update_touched(step, dim, gradients, chunked_row(dim));
  } else {
    if (dim != Lanes) return update_touched_as<Lanes / 2>(step, dim, gradients);
    constexpr std::size_t vector_count = std::max<std::size_t>(Lanes / full_lanes, 1);
    return update_touched(step, Lanes, gradients, block_row<hn::CappedTag<float, Lanes>, vector_count>());
  }
}

/// Updates rows [first, last), merged with the touched ones. Returns as `update_touched`.
template <class Step>
std::size_t update_every(const Step& step, std::int64_t first, std::int64_t last, std::size_t dim,
                         const row_gradients& gradients) {
  chunked_row row(dim);
  std::size_t next = 0;
  for (std::int64_t number = first; number < last; ++number) {
    const bool touched = next < gradients.rows.size() && gradients.rows[next] == number;
    const run occurrences = touched ? run_of(gradients, next) : run{nullptr, nullptr};
    if (!row.update(step, static_cast<std::size_t>(number) * dim, gradients, occurrences)) return next;
    next += touched ? 1 : 0;
  }
  return next;
}

/// Row-wise Adagrad on the touched rows; `sums` has one number per row of the table. Returns as `update_touched`.
template <class Number>
std::size_t update_rowwise(const update_constants& c, std::size_t dim, Number* table, float* sums,
                           const row_gradients& gradients) {
  std::vector<float> buffer(dim);
  float* const grad = buffer.data();
  const prefetch_plan plan(dim * sizeof(Number) + cache_line_bytes);
  const std::size_t count = gradients.rows.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (i + plan.rows_ahead < count) {
      const auto later = static_cast<std::size_t>(gradients.rows[i + plan.rows_ahead]);
      prefetch_row(table + later * dim, std::min(plan.bytes, dim * sizeof(Number)));
      prefetch_row(sums + later, sizeof(float));
    }
    if (!sum_columns(gradients, run_of(gradients, i), 0, dim, grad)) return i;
    const auto row = static_cast<std::size_t>(gradients.rows[i]);
    rowwise_adagrad(c, dim, table + row * dim, sums + row, grad);
  }
  return count;
}

/// Takes a step by a rule on the touched rows, one after the other. Returns as `update_touched`.
template <class Number>
std::size_t update_rows_by_rule(const update_constants& c, std::size_t dim, Number* table, optimizer_state_view state,
                                const row_gradients& gradients) {
  std::vector<float> grad(dim);
  std::vector<float> numbers(dim);  // for a row in 16 bits
  for (std::size_t i = 0; i < gradients.rows.size(); ++i) {
    if (!sum_columns(gradients, run_of(gradients, i), 0, dim, grad.data())) return i;
    const std::size_t base = static_cast<std::size_t>(gradients.rows[i]) * dim;
    const auto part = [base](float* all) { return all == nullptr ? nullptr : all + base; };
    const optimizer_state_view of_row{part(state.first), part(state.second)};
    if constexpr (std::is_same_v<Number, float>) {
      update_by_rule(c, dim, table + base, of_row, grad.data());
    } else {
      Number* const row = table + base;
      for_each_vector(
          dim, [&](auto d, std::size_t at) HWY_ATTR { hn::StoreU(load_numbers(d, row + at), d, numbers.data() + at); });
      update_by_rule(c, dim, numbers.data(), of_row, grad.data());
      for_each_vector(
          dim, [&](auto d, std::size_t at) HWY_ATTR { store_numbers(hn::LoadU(d, numbers.data() + at), d, row + at); });
    }
  }
  return gradients.rows.size();
}

/// Updates the touched rows, and if `every_row` all of rows [first, last). Returns the index in `gradients.rows` of the
/// first row with a NaN or Inf, or their count.
std::size_t by_rows(const update_constants& c, std::int64_t first, std::int64_t last, std::size_t dim, table_view table,
                    optimizer_state_view state, const row_gradients& gradients, bool every_row) {
  return with_numbers(table, [&](auto* weights) HWY_ATTR {
    if (c.kind == optimizer_kind::rowwise_adagrad) return update_rowwise(c, dim, weights, state.first, gradients);
    if (c.kind == optimizer_kind::own) return update_rows_by_rule(c, dim, weights, state, gradients);
    return with_step(c, weights, state, [&](const auto& step) HWY_ATTR {
      if (every_row) return update_every(step, first, last, dim, gradients);
      return update_touched_as<8 * full_lanes>(step, dim, gradients);
    });
  });
}

/// Computes the squared norms of the touched rows [first, last).
void squared_norms(std::size_t dim, const row_gradients& gradients, std::size_t first, std::size_t last, double* out) {
  std::vector<float> grad(dim);
  for (std::size_t i = first; i < last; ++i) {
    sum_columns(gradients, run_of(gradients, i), 0, dim, grad.data());  // NaN and Inf reach the norm
    out[i] = sum_of_squares(dim, grad.data());
  }
}

}  // namespace
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(dense);
HWY_EXPORT(by_rows);
HWY_EXPORT(squared_norms);

void cpu_stream::update_dense(const update_constants& c, std::size_t count, float* weights, optimizer_state_view state,
                              const float* grad) {
  HWY_DYNAMIC_DISPATCH(dense)(c, count, weights, state, grad);
}

namespace {

/// Returns the part of `whole` with the touched rows [first, last).
row_gradients part_of(const row_gradients& whole, std::size_t first, std::size_t last) {
  row_gradients part = whole;
  part.rows = whole.rows.subspan(first, last - first);
  part.starts = whole.starts.subspan(first, last - first + 1);
  return part;
}

/// About how many bytes the update of `rows` rows reads and writes.
std::size_t bytes_of(std::size_t rows, std::size_t dim, const row_gradients& gradients) {
  return (3 * rows + gradients.occurrences.size()) * dim * sizeof(float);
}

}  // namespace

bool update_rows(const update_constants& c, std::int64_t row_count, std::size_t dim, table_view table,
                 optimizer_state_view state, const row_gradients& gradients, bool every_row, std::int64_t* bad_row) {
  const std::size_t touched = gradients.rows.size();
  std::atomic<std::size_t> bad = touched;
  // Touched rows [first, last), which are among rows [first_row, last_row).
  const auto update = [&](std::size_t first, std::size_t last, std::int64_t first_row, std::int64_t last_row) {
    const std::size_t stopped = HWY_DYNAMIC_DISPATCH(by_rows)(c, first_row, last_row, dim, table, state,
                                                              part_of(gradients, first, last), every_row);
    if (stopped == last - first) return;
    std::size_t known = bad.load();
    while (first + stopped < known && !bad.compare_exchange_weak(known, first + stopped)) {
    }
  };
  if (every_row && c.kind != optimizer_kind::rowwise_adagrad) {
    const auto count = static_cast<std::size_t>(row_count);
    const auto index_of = [&](std::size_t row) {
      const auto found = std::ranges::lower_bound(gradients.rows, static_cast<std::int64_t>(row));
      return static_cast<std::size_t>(found - gradients.rows.begin());
    };
    in_ranges(count, bytes_of(count, dim, gradients), [&](std::size_t first, std::size_t last) {
      update(index_of(first), index_of(last), static_cast<std::int64_t>(first), static_cast<std::int64_t>(last));
    });
  } else {
    in_ranges(touched, bytes_of(touched, dim, gradients),
              [&](std::size_t first, std::size_t last) { update(first, last, 0, row_count); });
  }
  if (bad == touched) return true;
  *bad_row = gradients.rows[bad];
  return false;
}

void row_squared_norms(std::size_t dim, const row_gradients& gradients, double* out) {
  in_ranges(gradients.rows.size(), gradients.occurrences.size() * dim * sizeof(float),
            [&](std::size_t first, std::size_t last) {
              HWY_DYNAMIC_DISPATCH(squared_norms)(dim, gradients, first, last, out);
            });
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
