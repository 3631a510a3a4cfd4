// What is trained on: batches of bags, dense features and targets, and the data sets that make them.
//
// A data set is a pure function of (seed, step, rank): any batch can be had at any time, in any order and from any
// thread, so trainers need no reader state, prepare batches ahead, and a run can go on from any step.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "kernels/embedding_bag.hpp"

namespace troupe {

struct job;

enum class loss_kind : std::uint8_t { cross_entropy, bce_logits, mse };

/// One embedding table, as the model wants it.
struct table_spec {
  std::int64_t rows = 0;
  std::size_t dim = 0;
  kernels::pooling mode = kernels::pooling::sum;
  /// Bags carry per-sample weights (mode sum only).
  bool weighted = false;
  /// Expected length of a bag: what decides how much traffic the table makes.
  double indices_per_sample = 1;

  bool operator==(const table_spec&) const = default;
};

/// What goes into the model and what comes out.
struct data_spec {
  std::vector<table_spec> tables;
  std::size_t dense_features = 0;
  /// Width of the network's output: classes for cross-entropy, else the number of target values of a sample.
  std::size_t outputs = 1;
  /// Targets are 0 or 1 in one output, or two classes: predictions have an AUC.
  bool binary_targets = false;
};

/// The bags of one table in one batch; see `kernels::bags_view`.
struct bags {
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> offsets;
  std::vector<float> weights;

  operator kernels::bags_view() const { return {indices, offsets, weights}; }
};

/// The samples of one trainer in one step.
struct batch {
  std::size_t size = 0;
  /// One for each table, `size` bags each.
  std::vector<bags> tables;
  /// [size, dense_features], row-major.
  std::vector<float> dense;
  /// Cross-entropy: [size] class numbers. Empty otherwise.
  std::vector<std::int64_t> classes;
  /// Other losses: [size, outputs] values. Empty for cross-entropy.
  std::vector<float> values;
};

/// Weights to start from instead of random ones (reference runs).
struct initial_weights {
  /// [rows, dim] of each table.
  std::vector<std::vector<float>> tables;
  /// For each linear layer its weight [out, in], then its bias [out], one after the other.
  std::vector<float> dense;
};

class dataset {
 public:
  virtual ~dataset() = default;

  virtual const data_spec& spec() const = 0;

  /// Tells the files that the rows come from apart from others, whatever they are called. Empty for rows that follow
  /// from the settings alone.
  virtual std::string digest() const { return {}; }

  /// Global steps in one pass over the training rows.
  virtual std::uint64_t steps_per_epoch() const = 0;

  /// The batch of `rank` in global step `step` (0 for the first of the run; epoch = step / steps_per_epoch()).
  /// size 0 if the rank's rows of this epoch have run out. A data set that reads as it goes may wait here for its file,
  /// and returns what is wrong with it.
  virtual result<batch> train_batch(std::uint64_t step, std::uint32_t rank) const = 0;

  /// Rows held out for evaluation; 0 if there are none.
  virtual std::uint64_t test_rows() const { return 0; }

  /// Test rows [first, first + count), all of them below `test_rows()`; waits and fails as `train_batch` does. An empty
  /// batch by default.
  virtual result<batch> test_batch(std::uint64_t first, std::size_t count) const;

  virtual std::optional<initial_weights> start() const { return std::nullopt; }
};

/// What is wrong with `what` as input of a model for `spec`, naming table, index, rows and sample, or nothing: number
/// of tables, bags, dense values and targets; indices; offsets; per-sample weights; class numbers. Either `classes` or
/// `values` holds the targets. Takes one pass over the indices and classes, and no memory unless it finds something.
/// May be called from any thread.
std::optional<std::string> check_batch(const data_spec& spec, const batch& what);

/// Opens what `job.data` names, for `job.trainers` ranks. Within one process, jobs on the same data share what has been
/// read while somebody holds it. May be called from any thread.
result<std::shared_ptr<const dataset>> open_dataset(const job& job);

}  // namespace troupe
