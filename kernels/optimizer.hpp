// Optimizer updates by PyTorch's definitions (torch.optim.SGD, Adagrad, Adam), in one pass over the weights: of a dense
// block (`stream::update_dense`), and of the touched rows of a table, fused with the sum of their gradients.
//
//   sgd      g += weight_decay*w;  m = momentum*m + g;  d = nesterov ? g + momentum*m : m;  w -= lr*d
//            (without momentum d = g and there is no m; m starts at 0, which equals PyTorch's first step)
//   adagrad  g += weight_decay*w;  s += g*g;  w -= lr * g / (sqrt(s) + eps)
//   adam     g += weight_decay*w;  m = b1*m + (1-b1)*g;  v = b2*v + (1-b2)*g*g;
//            w -= lr/(1-b1^t) * m / (sqrt(v)/sqrt(1-b2^t) + eps)          [Kingma & Ba, 2015]
//
// and for tables only, with one accumulator s for a whole row with gradient g:
//
//   rowwise_adagrad  g += weight_decay*w;  s += |g|^2 / dim;  w -= lr / (sqrt(s) + eps) * g
//
// where |g|^2 is `stream::squared_norm`, in double, and lr / (sqrt(s) + eps) is rounded to float32 once.
//
// `own` is a rule that a program has added (update_rule.hpp), on the processor only; in tables, for the touched rows.
//
// Results do not depend on the width of vectors, nor on how a buffer is split into blocks or rows: each element has the
// same operations, and a row's squares are summed in one order.
// Thread: any, on disjoint buffers.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/update_rule.hpp"
#include "kernels/embedding_bag.hpp"

namespace troupe::kernels {

enum class optimizer_kind : std::uint8_t { sgd, adagrad, adam, rowwise_adagrad, own };

/// The arguments of a step by a rule.
struct rule_constants {
  const update_rule* rule = nullptr;  ///< outlives the step
  double lr = 0;
  std::uint64_t step = 0;  ///< from 1
};

/// Constants of one optimizer step; `model/optimizer.hpp` computes them for step t.
struct update_constants {
  optimizer_kind kind = optimizer_kind::sgd;
  float lr = 0;  ///< Adam: lr/(1-b1^t)
  float weight_decay = 0;
  float momentum = 0;               ///< sgd; 0: no momentum buffer
  bool nesterov = false;            ///< sgd
  float eps = 0;                    ///< used by all rules but sgd
  float beta1 = 0;                  ///< adam
  float beta2 = 0;                  ///< adam
  float one_minus_beta1 = 0;        ///< adam, rounded from the double 1-b1
  float one_minus_beta2 = 0;        ///< adam, rounded from the double 1-b2
  float bias_correction2_sqrt = 1;  ///< adam: sqrt(1-b2^t)
  rule_constants own = {};          ///< own, which uses no others
};

/// Optimizer state, of the same shape as the weights: sgd with momentum and adagrad use `first`, adam uses both, plain
/// sgd neither. rowwise_adagrad has one number per row in `first`. Unused pointers may be null; with `own` they must
/// be.
struct optimizer_state_view {
  float* first = nullptr;
  float* second = nullptr;
};

/// One contribution to a row's gradient: scale * source[rank][row, :].
struct occurrence {
  std::uint32_t rank = 0;  ///< index of the source
  std::uint32_t row = 0;   ///< row of that source: a bag, or a row already summed
  float scale = 1;         ///< per-sample weight, or 1/length for mean
};

/// The gradient of one table in one step, grouped by row.
struct row_gradients {
  /// The distinct touched rows, ascending.
  std::span<const std::int64_t> rows;
  /// The occurrences of rows[i] are occurrences[starts[i] .. starts[i+1]); rows.size()+1 entries.
  std::span<const std::uint32_t> starts;
  /// Sorted by rank within a row; within a rank in index order.
  std::span<const occurrence> occurrences;
  /// Sources by rank: matrices of `dim` columns, with `source_strides` floats from row to row.
  std::span<const float* const> sources;
  std::span<const std::size_t> source_strides;
  /// Factor on the sum over ranks (1, or 1/ranks for the mean).
  float scale = 1;
};

/// Updates a table [rows, dim] in place. A number stored in 16 bits is rounded once, after its step. The gradient of a
/// row is
///   scale * (((0 + g_0) + g_1) + g_2 + ...),   g_r = ((0 + o_1) + o_2) + ... over rank r's occurrences in order
/// (fused multiply-add of scale and source), without the ranks that have no occurrence. With `every_row`, rows 0 ..
/// row_count-1 are all updated, untouched ones with a zero gradient (the dense definition of momentum, weight decay and
/// Adam); otherwise, and always with rowwise_adagrad and own, only the touched ones. Returns false if the gradient of a
/// row is NaN or Inf: `bad_row` is the first such row; others before and after it may be updated. Passes on a rule's
/// exceptions.
bool update_rows(const update_constants& c, std::int64_t row_count, std::size_t dim, table_view table,
                 optimizer_state_view state, const row_gradients& gradients, bool every_row, std::int64_t* bad_row);

/// out[i] = the squared norm (`stream::squared_norm`) of the gradient that `update_rows` computes for rows[i]; NaN or
/// Inf if that gradient is not finite.
void row_squared_norms(std::size_t dim, const row_gradients& gradients, double* out);

}  // namespace troupe::kernels
