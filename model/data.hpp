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
  /// For each layer its parameters, one after the other: for a linear layer its weight [out, in], then its bias [out].
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

  /// Returns the data that others need to open the same data set without reading all of its files;
  /// empty: they read them.
  virtual std::vector<std::uint64_t> row_index() const { return {}; }

  /// Returns how epochs of training rows are cut into global steps.
  virtual epoch_plan epochs() const = 0;
  /// Returns the global steps of the first epoch, and of each if the number of trainers is fixed.
  std::uint64_t steps_per_epoch() const { return epochs().steps_until(1); }

  /// Returns the number of training rows if the ranks of an epoch share them as `sharded_sampler` does, else none.
  virtual std::optional<std::uint64_t> train_rows() const { return std::nullopt; }

  /// Returns the batch of `rank` in global step `step` (0 for the run's first step); its size is 0 if the rank has no
  /// more rows in this epoch. A data set in files may block to read them, and returns its faults.
  virtual result<batch> train_batch(std::uint64_t step, std::uint32_t rank) const = 0;

  /// Returns the number of rows held out for evaluation.
  virtual std::uint64_t test_rows() const { return 0; }

  /// Returns test rows [first, first + count); an empty batch by default. Blocks and fails like `train_batch`.
  /// Requires: all rows are below `test_rows()`.
  virtual result<batch> test_batch(std::uint64_t first, std::size_t count) const;

  virtual std::optional<initial_weights> start() const { return std::nullopt; }

  /// Returns notes on the files for the user, one line each.
  virtual std::vector<std::string> notes() const { return {}; }
};

/// Returns approximately how many indices and dense features a batch has.
std::uint64_t numbers_per_batch(const job& job, const data_spec& spec);

/// Opens the data set `job.data` for `job.trainers` ranks. Jobs of one process on the same data share it in memory
/// while at least one holds it. `row_index`: that of the master's data set for this job; may be empty. Thread: any.
result<std::shared_ptr<const dataset>> open_dataset(const job& job, std::span<const std::uint64_t> row_index = {});

/// While this object lives, the last opened data set stays in memory even if no job holds it: a process that joins a
/// run's next attempt need not read the files again. Requires: there is at most one holder.
class dataset_holder {
 public:
  dataset_holder();
  ~dataset_holder();
  dataset_holder(const dataset_holder&) = delete;
  dataset_holder& operator=(const dataset_holder&) = delete;
};

}  // namespace troupe::model
