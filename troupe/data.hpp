// The data sets of `troupe train`, for users' programs: Adult, synthetic rows, files of Criteo and CSV, images, and
// those added by `nn::add_data`.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/own_data.hpp"
#include "troupe/epoch_range.hpp"
#include "troupe/tensor.hpp"
#include "troupe/trainer.hpp"

namespace troupe {

namespace runtime {
class open_data;
}

/// The bags of a table: bag b has the rows `indices[offsets[b]]` to `indices[offsets[b + 1] - 1]`.
struct table_bags {
  std::vector<std::int64_t> indices = {};
  std::vector<std::int64_t> offsets = {};
};

/// One trainer's samples of a step.
struct data_batch {
  std::size_t size = 0;                    ///< samples; 0: this trainer has no more in this epoch
  std::vector<table_bags> tables = {};     ///< for each table, `size` bags
  tensor dense = {};                       ///< [size, dense features] of float32; empty without any
  std::vector<std::int64_t> classes = {};  ///< [size], or empty: the targets are values
  tensor values = {};                      ///< [size, outputs] of float32, or empty: the targets are classes
};

/// A data set, shared out over the trainers. A pure function of (seed, step, rank), so resuming needs no state. Copies
/// refer to the same data.
class data_set {
 public:
  /// `settings`: as in `troupe train --help`, such as {{"data", "criteo:day_0.gz"}, {"rows", "1000000"}, {"batch-size",
  /// "512"}}. Seed and number of trainers come from the run. Throws `error` on a wrong setting or file.
  data_set(trainer me, const std::vector<std::pair<std::string, std::string>>& settings);

  /// The number of rows of each table.
  std::vector<std::int64_t> table_rows() const;
  std::size_t dense_features() const;
  std::uint64_t steps_per_epoch() const;
  /// About how many indices and dense features a batch has in all.
  std::uint64_t numbers_per_batch() const;

  /// Thread: any.
  data_batch batch(std::uint64_t epoch, std::uint64_t step) const;
  /// Returns this trainer's batches of an epoch, as a range that reads each when it is used: see `trainer::batches`.
  /// Its iterators throw `error` if a file cannot be read.
  epoch_range<data_set, &data_set::batch> epoch(std::uint64_t number) const;

  /// The number of rows held out for tests, and this trainer's share of them in batches of at most `size`.
  std::uint64_t test_rows() const;
  std::vector<data_batch> test_batches(std::size_t size) const;

 private:
  std::shared_ptr<const runtime::open_data> data_;
};

inline epoch_range<data_set, &data_set::batch> data_set::epoch(std::uint64_t number) const { return {*this, number}; }

}  // namespace troupe
