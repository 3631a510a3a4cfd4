// Data sets that a program adds to those that jobs can name: `add_data("ratings", open)` before the program reads a
// job. Troupe shuffles their rows and shares them out. Every process of a run adds the same ones.

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

/// What each sample has: a bag for each table, dense features, and as target either a class or some values.
struct data_form {
  std::vector<table_spec> tables = {};  ///< with `dim` 0 a table is as wide as the job's --dim says
  std::size_t dense_features = 0;       ///< of an image: may be left out
  troupe::shape image = {};             ///< {channels, height, width} if the dense features are an image
  std::size_t classes = 0;              ///< 0: targets are values
  std::size_t values = 0;               ///< numbers in a target; 0: targets are classes
};

/// Takes the samples that a data set reads. Throws `error` if one cannot be of the data set's form.
class data_samples {
 public:
  /// Begins a sample, which the calls below fill; a table without a call has an empty bag.
  virtual void next() = 0;
  /// Appends to the sample's bag of a table: numbers of the table's rows and, if the table is weighted, as many
  /// weights.
  virtual void bag(std::size_t table, std::span<const std::int64_t> indices, std::span<const float> weights) = 0;
  /// Appends dense features; a sample needs all of them.
  virtual void dense(std::span<const float> features) = 0;
  /// The target of a data set with classes, from 0; or that of one with values.
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

/// A data set of numbered rows, as PyTorch's map-style ones. All calls return the same at any time and in every process
/// of a run; what they throw ends the run. Thread: any, several at once.
class own_data {
 public:
  virtual ~own_data() = default;

  virtual data_form form() const = 0;
  /// The rows of an epoch, which Troupe shuffles anew for each, and shares out over the trainers.
  virtual std::uint64_t rows() const = 0;
  /// The rows held out for evaluation.
  virtual std::uint64_t test_rows() const { return 0; }

  /// Reads these rows, numbers below `rows()`, or below `test_rows()` if `test`: a sample of `into` for each, in their
  /// order.
  virtual void read(std::span<const std::uint64_t> rows, bool test, data_samples& into) const = 0;

  /// Returns a text that differs if the rows do, such as a digest of a file; empty: not known. Processes that differ in
  /// it are refused, and so are runs that resume a checkpoint of another.
  virtual std::string digest() const { return {}; }
};

/// Opens a data set. `argument`: what is behind the colon in a job's data = "ratings:ARGUMENT"; empty without one.
/// `seed`: the job's, for rows that are drawn. What it throws refuses the job.
using open_data = std::function<std::shared_ptr<const own_data>(const std::string& argument, std::uint64_t seed)>;

struct named_data {
  std::string name;
  open_data open;
};

/// Has jobs name a data set, `--data NAME` or `--data NAME:ARGUMENT`. Each process of a run opens it once. Throws
/// `error` if the name is taken, or does not fit. Thread: any; before the first job is read.
void add_data(const std::string& name, open_data open);

/// Returns the data sets that have been added, in their order.
std::vector<named_data> added_data();

}  // namespace troupe::nn
