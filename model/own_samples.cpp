#include "model/own_samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "model/datasets.hpp"

namespace troupe::model {

namespace {

template <class... Values>
[[noreturn]] void refuse(fmt::format_string<Values...> text, Values&&... values) {
  throw error(error_kind::input, fmt::format(text, std::forward<Values>(values)...));
}

}  // namespace

own_samples::own_samples(const nn::data_form& form, loss_kind loss, std::optional<nn::id_range> ids,
                         std::span<const std::uint64_t> rows)
    : form_(form), loss_(loss), ids_(ids), rows_(rows) {
  made_.tables.resize(form.tables.size());
  for (bags& one : made_.tables) one.offsets.reserve(rows.size());
  made_.dense.reserve(rows.size() * form.dense_features);
}

void own_samples::next() {
  check_whole();
  if (made_.size == rows_.size()) refuse("one more sample than the {} rows to be read", rows_.size());
  for (bags& one : made_.tables) one.offsets.push_back(static_cast<std::int64_t>(one.indices.size()));
  ++made_.size;
  has_target_ = false;
}

void own_samples::bag(std::size_t table, std::span<const std::int64_t> indices, std::span<const float> weights) {
  check_begun();
  if (table >= form_.tables.size()) refuse("a bag of table {}: there are {} tables", table, form_.tables.size());
  const table_spec& spec = form_.tables[table];
  for (const std::int64_t index : indices)
    if (index < 0 || index >= spec.rows)
      refuse("index {} of table {}: must be between 0 and {}, the table has {} rows", index, table, spec.rows - 1,
             spec.rows);
  if (!spec.weighted && !weights.empty()) refuse("weights of table {}: the table is not weighted", table);
  if (spec.weighted && weights.size() != indices.size())
    refuse("{} weights for {} indices of table {}: must be one for each", weights.size(), indices.size(), table);
  for (const float weight : weights)
    if (!std::isfinite(weight)) refuse("weight {} of table {}: must be a finite number", weight, table);
  bags& to = made_.tables[table];
  to.indices.insert(to.indices.end(), indices.begin(), indices.end());
  to.weights.insert(to.weights.end(), weights.begin(), weights.end());
}

void own_samples::dense(std::span<const float> features) {
  check_begun();
  const std::size_t before = made_.dense.size() - (made_.size - 1) * form_.dense_features;
  if (features.size() > form_.dense_features - before)
    refuse("{} dense features: must be {}", before + features.size(), form_.dense_features);
  for (std::size_t i = 0; i < features.size(); ++i) {
    if (!std::isfinite(features[i])) refuse("dense feature {}: {}: must be a finite number", before + i, features[i]);
    if (ids_ && !ids_->has(features[i]))
      refuse("dense feature {}: {}: must be {}", before + i, features[i], ids_->text());
  }
  made_.dense.insert(made_.dense.end(), features.begin(), features.end());
}

void own_samples::target_class(std::int64_t number) {
  check_target("a class", form_.classes > 0);
  if (number < 0 || static_cast<std::uint64_t>(number) >= form_.classes)
    refuse("class {}: must be between 0 and {}", number, form_.classes - 1);
  append_target(made_, loss_, static_cast<std::size_t>(number));
  has_target_ = true;
}

void own_samples::targets(std::span<const float> values) {
  check_target("target values", form_.values > 0);
  if (values.size() != form_.values) refuse("{} target values: must be {}", values.size(), form_.values);
  for (const float value : values)
    if (!std::isfinite(value)) refuse("target value {}: must be a finite number", value);
  made_.values.insert(made_.values.end(), values.begin(), values.end());
  has_target_ = true;
}

void own_samples::finish() const {
  check_whole();
  if (made_.size < rows_.size()) refuse("{} samples for {} rows: must be one for each", made_.size, rows_.size());
}

void own_samples::check_begun() const {
  if (made_.size == 0) refuse("next() must begin a sample before anything is added to it");
}

void own_samples::check_whole() const {
  if (made_.size == 0) return;
  const std::size_t features = made_.dense.size() - (made_.size - 1) * form_.dense_features;
  if (features < form_.dense_features) refuse("{} dense features: must be {}", features, form_.dense_features);
  if (!has_target_) refuse("no target: must have {}", form_.classes > 0 ? "a class" : "target values");
}

void own_samples::check_target(const char* given, bool fits) const {
  check_begun();
  if (!fits) refuse("{}: the targets are {}", given, form_.classes > 0 ? "classes" : "values");
  if (has_target_) refuse("a second target: must be one a sample");
}

}  // namespace troupe::model
