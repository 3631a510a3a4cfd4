#include "model/batch.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::model {

namespace {

std::optional<std::string> check_targets(const data_spec& spec, const batch& what) {
  if (what.classes.empty()) {
    if (what.values.size() == what.size * spec.outputs) return std::nullopt;
    return fmt::format("{} target values for {} samples: must be {} for each", what.values.size(), what.size,
                       spec.outputs);
  }
  if (!what.values.empty())
    return fmt::format("{} classes and {} target values: must be one or the other", what.classes.size(),
                       what.values.size());
  if (what.classes.size() != what.size)
    return fmt::format("{} classes for {} samples: must be one for each", what.classes.size(), what.size);
  const auto limit = static_cast<std::int64_t>(spec.outputs);
  const auto bad = std::ranges::find_if(what.classes, [limit](std::int64_t c) { return c < 0 || c >= limit; });
  if (bad == what.classes.end()) return std::nullopt;
  return fmt::format("class {} of sample {}: must be between 0 and {}", *bad, bad - what.classes.begin(), limit - 1);
}

}  // namespace

input_layout::input_layout(const data_spec& spec) : width(spec.dense_features) {
  for (const table_spec& table : spec.tables) {
    columns.push_back(width);
    width += table.dim;
  }
}

std::optional<std::string> check_bags(const table_spec& spec, const bags& what, std::size_t samples) {
  if (what.offsets.size() != samples)
    return fmt::format("{} bags for {} samples: every sample needs one bag", what.offsets.size(), samples);
  if (!spec.weighted && !what.weights.empty())
    return fmt::format("{} per-sample weights: the table has none", what.weights.size());
  if (spec.weighted && what.weights.empty() && !what.indices.empty())
    return fmt::format("no per-sample weights for {} indices: the table needs one for each", what.indices.size());
  const auto fault = kernels::check_bags(what, spec.rows);
  switch (fault.what) {
    case kernels::bags_fault::kind::none:
      return std::nullopt;
    case kernels::bags_fault::kind::index:
      return fmt::format("index {} in sample {}: must be between 0 and {}, the table has {} rows", fault.value,
                         fault.bag, spec.rows - 1, spec.rows);
    case kernels::bags_fault::kind::offset:
      return fmt::format(
          "offset {} of sample {}: offsets must start at 0, never descend, and not exceed the {} indices", fault.value,
          fault.bag, what.indices.size());
    case kernels::bags_fault::kind::weights:
      return fmt::format("{} per-sample weights for {} indices: must be one for each", fault.value,
                         what.indices.size());
  }
  return std::nullopt;
}

std::optional<std::string> check_batch(const data_spec& spec, const batch& what) {
  if (what.tables.size() != spec.tables.size())
    return fmt::format("{} tables' bags: the model has {} tables", what.tables.size(), spec.tables.size());
  for (std::size_t table = 0; table < spec.tables.size(); ++table)
    if (const auto fault = check_bags(spec.tables[table], what.tables[table], what.size))
      return fmt::format("table {}: {}", table, *fault);
  if (what.dense.size() != what.size * spec.dense_features)
    return fmt::format("{} dense values for {} samples: must be {} for each", what.dense.size(), what.size,
                       spec.dense_features);
  return check_targets(spec, what);
}

}  // namespace troupe::model
