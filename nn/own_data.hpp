// Data sets that a program adds for jobs: `add_data("ratings", open)` before the program reads a job. Troupe shuffles
// their rows and shares them out. Every process of a run adds the same ones.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/table_choices.hpp"
#include "nn/tensor.hpp"

namespace troupe::nn {

/// The form of each sample: a bag for each table, dense features, and a target: either a class or some values.
struct data_form {
  std::vector<table_spec> tables = {};  ///< a table with `dim` 0 has the job's --dim
  std::size_t dense_features = 0;       ///< may be left out for an image
  troupe::shape image = {};             ///< {channels, height, width} if the dense features are an image
  std::size_t classes = 0;              ///< 0: targets are values
  std::size_t values = 0;               ///< numbers of a target; 0: targets are classes
};

/// Receives the samples that a data set reads. Throws `error` if a sample does not fit the data set's form.
class data_samples {
 public:
  /// Begins a sample, which the calls below fill; a table without a call has an empty bag.
  virtual void next() = 0;
  /// Appends to the sample's bag of a table: row indices and, if the table is weighted, as many weights.
  virtual void bag(std::size_t table, std::span<const std::int64_t> indices, std::span<const float> weights) = 0;
  /// Appends dense features; every sample needs all of them.
  virtual void dense(std::span<const float> features) = 0;
  /// Sets the target in a data set with classes, from 0; or with values.
  virtual void target_class(std::int64_t number) = 0;
  virtual void targets(std::span<const float> values) = 0;

  void bag(std::size_t table, std::span<const std::int64_t> indices) { bag(table, indices, std::span<const float>()); }
  void bag(std::size_t table, std::initializer_list<std::int64_t> indices, std::initializer_list<float> weights = {}) {
    bag(table, std::span(indices.begin(), indices.size()), std::span(weights.begin(), weights.size()));
  }
  void dense(std::initializer_list<float> features) { dense(std::span(features.begin(), features.size())); }
  void targets(std::initializer_list<float> values) { targets(std::span(values.begin(), values.size())); }

 protected:
  ~data_samples() = default;
};

/// A data set of numbered rows, like PyTorch's map-style ones. All calls return the same at any time and in every
/// process of a run; their exceptions end the run. Thread: any, several at once.
class own_data {
 public:
  virtual ~own_data() = default;

  virtual data_form form() const = 0;
  /// The number of rows of an epoch. Troupe shuffles them for each epoch, and shares them out over the trainers.
  virtual std::uint64_t rows() const = 0;
  /// The number of rows held out for evaluation.
  virtual std::uint64_t test_rows() const { return 0; }

  /// Reads these rows, below `rows()`, or below `test_rows()` if `test`: one sample of `into` for each, in order.
  virtual void read(std::span<const std::uint64_t> rows, bool test, data_samples& into) const = 0;

  /// Returns a text that identifies the rows, such as a digest of a file; empty if unknown. Processes with another text
  /// are refused, and so are runs that resume a checkpoint with another.
  virtual std::string digest() const { return {}; }
};

/// Opens a data set. `argument`: the text after the colon in a job's data = "ratings:ARGUMENT"; may be empty. `seed`:
/// the job's, for random rows. Its exceptions refuse the job.
using open_data = std::function<std::shared_ptr<const own_data>(const std::string& argument, std::uint64_t seed)>;

struct named_data {
  std::string name;
  open_data open;
};

/// Adds a data set for jobs, `--data NAME` or `--data NAME:ARGUMENT`. Each process of a run opens it once. Throws
/// `error` if the name is in use or invalid. Thread: any; before the first job is read.
void add_data(const std::string& name, open_data open);

/// Returns the added data sets, in the order of adding.
std::vector<named_data> added_data();

}  // namespace troupe::nn
