#include "model/data.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/datasets.hpp"
#include "model/job.hpp"

namespace troupe {

namespace {

std::optional<std::string> check_table(std::size_t number, const table_spec& spec, const bags& what,
                                       std::size_t samples) {
  if (what.offsets.size() != samples) {
    return fmt::format("table {}: {} bags for {} samples: every sample needs one bag", number, what.offsets.size(),
                       samples);
  }
  if (!spec.weighted && !what.weights.empty()) {
    return fmt::format("table {}: {} per-sample weights: the table has none", number, what.weights.size());
  }
  if (spec.weighted && what.weights.empty() && !what.indices.empty()) {
    return fmt::format("table {}: no per-sample weights for {} indices: the table needs one for each", number,
                       what.indices.size());
  }
  const auto fault = kernels::check_bags(what, spec.rows);
  switch (fault.what) {
    case kernels::bags_fault::kind::none:
      return std::nullopt;
    case kernels::bags_fault::kind::index:
      return fmt::format("table {}: index {} in sample {}: must be between 0 and {}, the table has {} rows", number,
                         fault.value, fault.bag, spec.rows - 1, spec.rows);
    case kernels::bags_fault::kind::offset:
      return fmt::format(
          "table {}: offset {} of sample {}: offsets must start at 0, never descend, and not exceed the {} indices",
          number, fault.value, fault.bag, what.indices.size());
    case kernels::bags_fault::kind::weights:
      return fmt::format("table {}: {} per-sample weights for {} indices: must be one for each", number, fault.value,
                         what.indices.size());
  }
  return std::nullopt;
}

std::optional<std::string> check_targets(const data_spec& spec, const batch& what) {
  if (what.classes.empty()) {
    if (what.values.size() == what.size * spec.outputs) return std::nullopt;
    return fmt::format("{} target values for {} samples: must be {} for each", what.values.size(), what.size,
                       spec.outputs);
  }
  if (!what.values.empty()) {
    return fmt::format("{} classes and {} target values: must be one or the other", what.classes.size(),
                       what.values.size());
  }
  if (what.classes.size() != what.size) {
    return fmt::format("{} classes for {} samples: must be one for each", what.classes.size(), what.size);
  }
  const auto limit = static_cast<std::int64_t>(spec.outputs);
  const auto bad = std::ranges::find_if(what.classes, [limit](std::int64_t c) { return c < 0 || c >= limit; });
  if (bad == what.classes.end()) return std::nullopt;
  return fmt::format("class {} of sample {}: must be between 0 and {}", *bad, bad - what.classes.begin(), limit - 1);
}

}  // namespace

result<batch> dataset::test_batch(std::uint64_t, std::size_t) const {
  batch empty;
  empty.tables.resize(spec().tables.size());
  return empty;
}

std::optional<std::string> check_batch(const data_spec& spec, const batch& what) {
  if (what.tables.size() != spec.tables.size()) {
    return fmt::format("{} tables' bags: the model has {} tables", what.tables.size(), spec.tables.size());
  }
  for (std::size_t table = 0; table < spec.tables.size(); ++table) {
    if (auto fault = check_table(table, spec.tables[table], what.tables[table], what.size)) return fault;
  }
  if (what.dense.size() != what.size * spec.dense_features) {
    return fmt::format("{} dense values for {} samples: must be {} for each", what.dense.size(), what.size,
                       spec.dense_features);
  }
  return check_targets(spec, what);
}

std::optional<std::string> check_share(const job& job, std::uint64_t rows, const std::string& source) {
  if (rows < job.trainers) {
    return fmt::format(
        "--trainers {}: {} has {} training rows: must be at least one for each trainer; use fewer trainers",
        job.trainers, source, rows);
  }
  if (rows < job.batch_size) {
    return fmt::format("--batch-size {}: must be at most {}, the training rows of {}", job.batch_size, rows, source);
  }
  return std::nullopt;
}

result<std::shared_ptr<const dataset>> open_dataset(const job& job) {
  const auto kind = data_kind_of(job.data);
  if (!kind) return bad_input(fmt::format("--data {}: unknown data set", job.data));
  switch (*kind) {
    case data_kind::adult:
      return open_adult(job);
    case data_kind::tutorial:
      return open_tutorial(job);
    case data_kind::synthetic:
      return open_synthetic(job);
    case data_kind::criteo:
    case data_kind::csv:
      return open_files(job);
    case data_kind::replay:
      break;
  }
  return open_replay(job);
}

}  // namespace troupe
