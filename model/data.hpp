// The data sets that make batches.
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
#include "model/batch.hpp"

namespace troupe::model {

struct job;

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

/// Opens what `job.data` names, for `job.trainers` ranks. Within one process, jobs on the same data share what has been
/// read while somebody holds it. May be called from any thread.
result<std::shared_ptr<const dataset>> open_dataset(const job& job);

}  // namespace troupe::model
