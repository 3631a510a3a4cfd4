// An embedding bag module: (one shard of) a table of rows in a device's memory, pooled lookup, and its optimizer.
//
// A shard has some of the rows, or some columns of every row (`table_split`); all row and column numbers here are
// local. Initial weights are keyed by (seed, table, whole-table row), so they do not depend on the sharding.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/device_array.hpp"
#include "kernels/embedding_bag.hpp"
#include "kernels/normal.hpp"
#include "model/exact_sum.hpp"
#include "model/optimizer.hpp"
#include "model/table_batch.hpp"
#include "model/table_split.hpp"

namespace troupe::model {

struct embedding_bag_options {
  std::int64_t rows = 0;  ///< of the whole table
  std::size_t dim = 0;    ///< of the whole table
  kernels::pooling mode = kernels::pooling::sum;
  std::uint64_t seed = 1;
  std::uint64_t table = 0;  ///< number of the table within the model
  shard_of shard;
  optimizer_spec optimizer;
  kernels::row_dtype dtype = kernels::row_dtype::f32;  ///< how rows are stored; the optimizer's state is always f32
  std::string name = {};                               ///< in errors; empty: errors use its number
  row_init init = {};                                  ///< the distribution of the initial rows
};

/// Returns a table's name for errors: "table 3".
std::string description_of(const embedding_bag_options& table);

/// Thread: one at a time, for all tables of a batch. Pointer arguments and results are addresses in the device's
/// memory.
class embedding_bag {
 public:
  /// Allocates the shard and fills it according to `init`, rounded to the stored type. The table is alone: all its work
  /// is enqueued when it is requested.
  explicit embedding_bag(const embedding_bag_options& options, kernels::device& where = kernels::host_device());

  /// The same for a table of a batch, on the batch's device. The batch's first `squared_norm` of a step groups the
  /// gradients of all its tables, and its first `launch` or `bad_row` applies them, so that the tables share launches.
  embedding_bag(const embedding_bag_options& options, std::shared_ptr<table_batch> batch);

  ~embedding_bag() { leave(); }
  embedding_bag(embedding_bag&&) noexcept = default;
  embedding_bag& operator=(embedding_bag&&) = delete;

  /// Continues with another optimizer and its initial state. Requires: no step is active.
  void set_optimizer(const optimizer_spec& chosen);

  /// Returns the stream on which all work of the table is ordered.
  kernels::stream& stream() const { return batch_->stream(); }

  const embedding_bag_options& options() const { return options_; }
  std::int64_t rows() const { return rows_; }
  std::size_t dim() const { return columns_.count; }

  /// Enqueues out [bags, dim] = the pooled rows, on the table's device; for bags without offsets, the rows themselves.
  void forward(const kernels::bags_view& bags, float* out);

  /// The same for bags with offsets, into columns of a wider matrix.
  void pool(const kernels::bags_view& bags, kernels::row_matrix<float> out);

  /// Begins `forward` or, for bags with offsets, `pool`, together with other tables of the batch: see
  /// `table_batch::begin`. `look_up` launches all that have begun.
  std::shared_ptr<const table_batch::lookup> begin(const kernels::bags_view& bags, kernels::row_matrix<float> out,
                                                   std::function<void()> then = {}) const;
  void look_up() { batch_->look_up(); }

  /// A gradient with respect to the result of `forward` or `pool` for `bags`.
  struct contribution {
    kernels::bags_view bags;
    kernels::row_matrix<const float> grad;  ///< [bags, dim]
  };

  /// Performs optimizer step `step` (from 1) with the sum of the contributions, in the given order, times `scale`.
  /// Returns the first row whose gradient is NaN or Inf, if any; then the table is unusable.
  std::optional<std::int64_t> step(std::uint64_t step, std::span<const contribution> contributions, float scale);

  /// The same in parts, for callers that need the gradient's norm before it is applied, or that overlap several tables.
  /// `collect` begins a step. Requires: the contributions stay valid until `bad_row`. The bags may be released earlier:
  /// for a table that is alone on a device once the stream has passed, for a table of a batch once the stream has
  /// passed the batch's `squared_norm` or `bad_row`.
  void collect(std::span<const contribution> contributions);

  /// Returns the squared norm of the collected gradient times `scale`: the sum over rows of `kernels::squared_norm`, as
  /// an exact sum, so that it does not depend on which rows are where. Its value is NaN if the gradient is not finite.
  exact_sum squared_norm(float scale);

  /// Applies the collected gradient; see `step`.
  void apply(std::uint64_t step, float scale);

  /// Has the device begin the work of `apply`, for all tables of the batch.
  void launch() { batch_->launch(place_); }

  /// Blocks until the first `apply` that this was not called for is done, for all tables of the batch; returns the
  /// result of `step`, for the first of them that has one. For a table on a device the call may come some steps later
  /// (`kernels::applies_max`).
  std::optional<std::int64_t> bad_row();

  /// Returns the rows in the stored type.
  std::span<std::byte> weight_bytes() { return {weights_.data(), weights_.size()}; }
  std::span<const std::byte> weight_bytes() const { return {weights_.data(), weights_.size()}; }

  /// Returns the rows of a table of f32.
  std::span<float> weights();
  std::span<const float> weights() const;

  /// One of the optimizer's buffers: `columns` numbers for each row.
  struct state_buffer {
    std::span<float> numbers;
    std::size_t columns = 0;
  };
  std::vector<state_buffer> state();

  /// Returns the whole-table number of local row `row`.
  std::int64_t whole_row(std::int64_t row) const {
    return static_cast<std::int64_t>(model::whole_row(static_cast<std::uint64_t>(row), options_.shard));
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(rows_) * dim(); }
  /// Row r's key is random_key(seed, table_weights, table, whole_row(r)).
  void initialize();
  /// Afterwards the table's memory may be freed.
  void leave() noexcept {
    if (batch_) batch_->leave(place_);
  }

  embedding_bag_options options_;
  std::int64_t rows_;
  column_range columns_;
  kernels::device_array<std::byte> weights_;  // freed only after the batch's stream has passed: see `leave`
  kernels::device_array<float> first_state_;
  kernels::device_array<float> second_state_;
  std::shared_ptr<table_batch> batch_;
  bool is_alone_ = false;
  table_batch::place place_;
  std::deque<table_batch::place> unasked_;  ///< of the steps for which `bad_row` has not been called
};

}  // namespace troupe::model
