// The interface of data sets.
//
// A data set is a pure function of (seed, step, rank): it returns any batch at any time, in any order and on any
// thread. So trainers need no reader state, can prepare batches ahead, and can resume from any step.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/batch.hpp"
#include "model/epoch_plan.hpp"

namespace troupe::model {

struct job;

/// Initial weights instead of random ones (reference runs).
struct initial_weights {
  /// [rows, dim] of each table.
  std::vector<std::vector<float>> tables;
  /// For each layer its parameters, one after the other: of a linear layer its weight [out, in], then its bias [out].
  std::vector<float> dense;
  /// The layers' buffers, such as running means, one after the other.
  std::vector<float> buffers;
};

class dataset {
 public:
  virtual ~dataset() = default;

  virtual const data_spec& spec() const = 0;

  /// Returns a digest of the files' content, independent of their names; empty for rows that depend on settings only.
  virtual std::string digest() const { return {}; }

  /// Returns what others need to open the same data set without reading all of its files; empty: they read
  /// them.
  virtual std::vector<std::uint64_t> row_index() const { return {}; }

  /// Returns how passes over the training rows are cut into global steps.
  virtual epoch_plan epochs() const = 0;
  /// Returns the global steps of the first epoch, and of each if the number of trainers is fixed.
  std::uint64_t steps_per_epoch() const { return epochs().steps_until(1); }

  /// Returns the training rows, which the ranks of an epoch share as `sharded_sampler` does; none if they do not.
  virtual std::optional<std::uint64_t> train_rows() const { return std::nullopt; }

  /// Returns the batch of `rank` in global step `step` (0 for the first of the run); of size 0 if the rank has no more
  /// rows in this epoch. A data set of a file may block to read it, and returns its faults.
  virtual result<batch> train_batch(std::uint64_t step, std::uint32_t rank) const = 0;

  /// Returns the number of rows held out for evaluation.
  virtual std::uint64_t test_rows() const { return 0; }

  /// Returns test rows [first, first + count). Requires: all are below `test_rows()`. Blocks and fails as
  /// `train_batch`. An empty batch by default.
  virtual result<batch> test_batch(std::uint64_t first, std::size_t count) const;

  virtual std::optional<initial_weights> start() const { return std::nullopt; }

  /// Returns what a user should know of the files, a line each.
  virtual std::vector<std::string> notes() const { return {}; }
};

/// Returns about how many indices and dense features a batch has.
std::uint64_t numbers_per_batch(const job& job, const data_spec& spec);

/// Opens the data set `job.data` for `job.trainers` ranks. Jobs of one process on the same data share it in memory
/// while at least one holds it. `row_index`: of the master's data set for this job; it may be empty. Thread: any.
result<std::shared_ptr<const dataset>> open_dataset(const job& job, std::span<const std::uint64_t> row_index = {});

/// While one lives, the data set that was opened last stays in memory, even if nobody else holds it: a process that
/// takes part in a run's next attempt does not read the files anew. Requires: there is at most one.
class dataset_holder {
 public:
  dataset_holder();
  ~dataset_holder();
  dataset_holder(const dataset_holder&) = delete;
  dataset_holder& operator=(const dataset_holder&) = delete;
};

}  // namespace troupe::model
