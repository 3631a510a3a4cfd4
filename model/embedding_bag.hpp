// An embedding bag module: (one shard of) a table of rows, pooled lookup, and its optimizer.
//
// Row r of the whole table lies on shard r % shards as local row r / shards; all row numbers here are local. Initial
// weights are keyed by (seed, table, whole-table row), so they do not depend on the sharding.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/embedding_bag.hpp"
#include "kernels/optimizer.hpp"
#include "model/optimizer.hpp"
#include "model/row_groups.hpp"

namespace troupe {

struct embedding_bag_options {
  std::int64_t rows = 0;  ///< of the whole table
  std::size_t dim = 0;
  kernels::pooling mode = kernels::pooling::sum;
  std::uint64_t seed = 1;
  std::uint64_t table = 0;  ///< number of the table within the model
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;
  optimizer_spec optimizer;
};

/// Rows of a table of `rows` rows that lie on `shard`.
constexpr std::int64_t rows_of_shard(std::int64_t rows, std::uint32_t shard, std::uint32_t shards) {
  return (rows - static_cast<std::int64_t>(shard) + shards - 1) / shards;
}

/// Owned by one actor; not thread-safe.
class embedding_bag {
 public:
  /// Allocates and fills the shard with N(0, 1).
  explicit embedding_bag(const embedding_bag_options& options);

  const embedding_bag_options& options() const { return options_; }
  std::int64_t rows() const { return rows_; }
  std::size_t dim() const { return options_.dim; }

  /// out [bags, dim] = the pooled rows; bags without offsets: the rows themselves.
  void forward(const kernels::bags_view& bags, float* out) const;

  /// A gradient with respect to what `forward` gave for `bags`.
  struct contribution {
    kernels::bags_view bags;
    const float* grad = nullptr;  ///< [bags, dim]
  };

  /// One optimizer step (the first is 1) with the sum of the contributions, in the order given, times `scale`.
  /// Returns the first row whose gradient is NaN or Inf, if any: then the table is no longer of use.
  std::optional<std::int64_t> step(std::uint64_t step, std::span<const contribution> contributions, float scale);

  std::span<float> weights() { return {weights_.get(), size()}; }
  std::span<const float> weights() const { return {weights_.get(), size()}; }

  /// The optimizer's buffers, each as big as the weights.
  std::vector<std::span<float>> state();

  /// Whole-table number of local row `row`.
  std::int64_t whole_row(std::int64_t row) const { return row * options_.shards + options_.shard; }

 private:
  std::size_t size() const { return static_cast<std::size_t>(rows_) * options_.dim; }

  embedding_bag_options options_;
  std::int64_t rows_;
  std::unique_ptr<float[]> weights_;
  std::unique_ptr<float[]> first_state_;
  std::unique_ptr<float[]> second_state_;
  row_groups groups_;
};

}  // namespace troupe
