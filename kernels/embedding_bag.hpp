// Embedding bag: gathers rows of a table by index and pools them bag by bag (`stream::embedding_bag_forward`).
//
// A table is a row-major matrix [rows, dim], stored as its `row_dtype`. A batch of bags has the form of PyTorch's
// nn.EmbeddingBag: the indices of all bags, consecutively, and the offset at which each bag starts.
// Requires, for all but `check_bags`: bags that `check_bags` has accepted. Thread: any, on disjoint outputs.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.hpp"
#include "base/table_choices.hpp"

namespace troupe::kernels {

/// How the rows of a table are stored: as float32, or with 16 bits per number, which halves the table. f16: IEEE 754
/// binary16, 11 significant bits, up to 65504; larger numbers become Inf. bf16: the upper half of a float32, 8
/// significant bits, and the range of a float32. All arithmetic is in float32. A number is rounded once, when it is
/// stored, to the nearest, ties to even.
using row_dtype = dtype;
inline constexpr row_dtype row_dtypes[] = {dtype::f32, dtype::f16, dtype::bf16};
constexpr bool is_row_dtype(dtype x) { return x == dtype::f32 || x == dtype::f16 || x == dtype::bf16; }

/// The numbers of a table, rows without gaps, and their type. A float pointer makes an f32 table.
struct table_view {
  void* data = nullptr;
  row_dtype type = row_dtype::f32;

  table_view(float* numbers) : data(numbers) {}  // NOLINT(google-explicit-constructor)
  table_view(void* numbers, row_dtype stored_as) : data(numbers), type(stored_as) {}
};

/// The same for reading.
struct const_table_view {
  const void* data = nullptr;
  row_dtype type = row_dtype::f32;

  const_table_view(const float* numbers) : data(numbers) {}  // NOLINT(google-explicit-constructor)
  const_table_view(const void* numbers, row_dtype stored_as) : data(numbers), type(stored_as) {}
};

/// out[i] = number i of `from`. Thread: any.
void decode(const_table_view from, std::size_t count, float* out);

/// Stores x[i] as number i of `to`. NaN stays NaN. Thread: any.
void encode(std::size_t count, const float* x, table_view to);

using troupe::pooling;

/// The bags of one table in one batch, as views.
struct bags_view {
  /// Row indices of all bags in order.
  std::span<const std::int64_t> indices;
  /// Index in `indices` at which each bag starts: begins with 0, never descends. A bag may be empty.
  std::span<const std::int64_t> offsets;
  /// Per-sample weights, one per index, or empty. `pooling::sum` only.
  std::span<const float> weights;

  std::size_t size() const { return offsets.size(); }
  std::size_t begin_of(std::size_t bag) const { return static_cast<std::size_t>(offsets[bag]); }
  std::size_t end_of(std::size_t bag) const {
    return bag + 1 < offsets.size() ? static_cast<std::size_t>(offsets[bag + 1]) : indices.size();
  }
};

/// One table's part of a lookup in several: `out` is [bags, dim] with `out_stride` floats from row to row. Bags without
/// offsets have one index each, and return its row; then `out` has no gaps.
struct bag_pass {
  pooling mode = pooling::sum;
  const void* table = nullptr;
  bags_view bags;
  float* out = nullptr;
  std::size_t out_stride = 0;
};

/// The first fault of a batch of bags.
struct bags_fault {
  enum class kind : std::uint8_t { none, index, offset, weights };
  kind what = kind::none;
  /// The bag (sample) with the fault.
  std::size_t bag = 0;
  /// The wrong index or offset, or the number of weights.
  std::int64_t value = 0;
};

/// Returns the first fault. In order of precedence: a number of weights that is neither 0 nor that of the indices; the
/// first offset that descends, exceeds the number of indices or (bag 0) is not 0; the first index outside [0, rows).
/// Indices without any bag are an offset fault whose value is their number.
bags_fault check_bags(const bags_view& bags, std::int64_t rows);

/// Adds the gradient of each row to `row_grads` [rows, dim], in index order. `grad` is [bags.size(), dim] with
/// `grad_stride` floats from row to row. `mean` multiplies by 1/length, rounded to float32. `max` adds each dimension's
/// gradient to the first maximal entry of the bag; it reads the float32 `table`, which the other modes ignore (may be
/// null). Requires: the caller has zeroed `row_grads`.
void embedding_bag_backward(pooling mode, const float* table, std::size_t dim, const bags_view& bags, const float* grad,
                            std::size_t grad_stride, float* row_grads);

}  // namespace troupe::kernels
