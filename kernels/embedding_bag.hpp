// Embedding bag: rows of a table, gathered by index and pooled bag by bag (`stream::embedding_bag_forward`).
//
// A table is a row-major matrix [rows, dim], stored as rows.hpp says. A batch of bags is given the way PyTorch's
// nn.EmbeddingBag gives it: all indices one after the other and, for each bag, where it starts.
// Nothing here checks an index: callers validate with `check_bags` first.
//
// All functions are pure on the buffers that they are given and may be called from any thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/rows.hpp"

namespace troupe::kernels {

enum class pooling : std::uint8_t { sum, mean, max };

/// The bags of one table in one batch, as views.
struct bags_view {
  /// Row numbers, all bags one after the other.
  std::span<const std::int64_t> indices;
  /// Where each bag starts in `indices`; starts at 0, never descends. A bag may be empty.
  std::span<const std::int64_t> offsets;
  /// Per-sample weights, one for each index, or empty. With `pooling::sum` only.
  std::span<const float> weights;

  std::size_t size() const { return offsets.size(); }
  std::size_t begin_of(std::size_t bag) const { return static_cast<std::size_t>(offsets[bag]); }
  std::size_t end_of(std::size_t bag) const {
    return bag + 1 < offsets.size() ? static_cast<std::size_t>(offsets[bag + 1]) : indices.size();
  }
};

/// What is wrong with a batch of bags, and where.
struct bags_fault {
  enum class kind : std::uint8_t { none, index, offset, weights };
  kind what = kind::none;
  /// Bag (sample) in which the fault lies.
  std::size_t bag = 0;
  /// The index or offset at fault, or the number of weights.
  std::int64_t value = 0;
};

/// Finds the first index outside [0, rows), the first offset that descends, exceeds the number of
/// indices or (for bag 0) is not 0, and a number of weights that is neither 0 nor that of the indices.
/// Indices without any bag are an offset fault whose value is their number. Where several things are wrong, weights
/// are reported before offsets, and offsets before indices.
bags_fault check_bags(const bags_view& bags, std::int64_t rows);

/// Adds the gradient of each row to `row_grads` [rows, dim], which the caller has zeroed; contributions are
/// added in index order. `grad` is [bags.size(), dim] with `grad_stride` floats from row to row.
/// `mean` multiplies by 1/length, rounded to float32. For `max`, each dimension's gradient goes to the first maximal
/// entry of the bag, once; this reads `table`, of float32, which the two other modes ignore (may be null).
void embedding_bag_backward(pooling mode, const float* table, std::size_t dim, const bags_view& bags, const float* grad,
                            std::size_t grad_stride, float* row_grads);

}  // namespace troupe::kernels
