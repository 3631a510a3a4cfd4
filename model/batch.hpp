// Batches of bags, dense features and targets, and the shapes that a model expects.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/table_choices.hpp"
#include "kernels/embedding_bag.hpp"
#include "nn/own_loss.hpp"
#include "nn/tensor.hpp"

namespace troupe::model {

enum class loss_kind : std::uint8_t { cross_entropy, bce_logits, mse };

/// A job's loss: `kind` itself, or a loss that the program has added, with outputs and targets in the form of `kind`.
struct loss_choice {
  loss_kind kind = loss_kind::bce_logits;
  std::shared_ptr<const nn::own_loss> own = nullptr;  ///< the added loss; null: `kind` itself

  loss_choice(loss_kind chosen = loss_kind::bce_logits) : kind(chosen) {}
  explicit loss_choice(std::shared_ptr<const nn::own_loss> added)
      : kind(static_cast<loss_kind>(added->form)), own(std::move(added)) {}
  operator loss_kind() const { return kind; }
  bool operator==(const loss_choice&) const = default;
  /// Returns whether the loss has that form.
  bool operator==(loss_kind form) const { return kind == form; }
};

using troupe::table_spec;

/// The shapes of a model's input and output.
struct data_spec {
  std::vector<table_spec> tables;
  std::size_t dense_features = 0;
  /// Width of the network's output: classes for cross-entropy, else the number of target values of a sample.
  std::size_t outputs = 1;
  /// Whether targets are 0 or 1 in one output, or two classes: then predictions have an AUC.
  bool binary_targets = false;
  /// {channels, height, width}, whose product is `dense_features`, if the dense features are an image; else empty.
  troupe::shape image = {};
};

/// A row of a network's input: the dense features, then the tables' pooled rows in order.
struct input_layout {
  input_layout() = default;
  explicit input_layout(const data_spec& spec);

  std::size_t width = 0;
  std::vector<std::size_t> columns;  ///< by table: the first column of its row
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

/// Checks one table's bags: their number, indices, offsets, per-sample weights. Returns the first problem, which names
/// index, rows and sample, or null. Thread: any.
std::optional<std::string> check_bags(const table_spec& spec, const bags& what, std::size_t samples);

/// Checks `what` as input of a model for `spec`: the numbers of tables, bags, dense values and targets; indices;
/// offsets; per-sample weights; class numbers. The targets are in either `classes` or `values`. Returns the first
/// problem, which names table, index, rows and sample, or null. Allocates only for a problem. Thread: any.
std::optional<std::string> check_batch(const data_spec& spec, const batch& what);

}  // namespace troupe::model
