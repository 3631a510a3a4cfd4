#include <fmt/format.h>

#include "model/hybrid.hpp"
#include "model/job_table.hpp"

namespace troupe {

namespace {

// Numbers of a size that no machine this runs on holds; below them no product here overflows 64 bits.
constexpr std::uint64_t table_weights_max = std::uint64_t{1} << 40;
// A step's occurrences of one table's rows are counted in 32 bits.
constexpr std::uint64_t step_indices_max = (std::uint64_t{1} << 31) - 1;

std::optional<std::string> check_loss(const job& what, data_kind kind) {
  if (what.loss != loss_kind::bce_logits) return std::nullopt;
  if (kind == data_kind::tutorial) {
    return fmt::format("--loss bce-logits: needs targets in 2 classes, the tutorial has {}; use cross-entropy or mse",
                       tutorial_classes);
  }
  if (kind == data_kind::synthetic && what.classes != 2) {
    return fmt::format("--loss bce-logits: needs --classes 2, not {}; use cross-entropy or mse", what.classes);
  }
  return std::nullopt;
}

std::optional<std::string> check_synthetic(const job& what) {
  const auto rows = static_cast<std::uint64_t>(what.rows);
  // rows <= 10^12 < 2^40 and tables * dim <= 2^28, so divide instead of multiplying.
  if (rows > table_weights_max / (what.tables * what.dim)) {
    return fmt::format("--rows {}: {} table(s) of {} rows x {} would be more than {} weights; use fewer rows",
                       what.rows, what.tables, what.rows, what.dim, table_weights_max);
  }
  const std::uint64_t indices = std::uint64_t{what.trainers} * what.batch_size * what.bag;
  if (indices > step_indices_max) {
    return fmt::format(
        "--batch-size {}: {} trainers x {} samples x {} indices must be at most {} a step; use smaller "
        "batches",
        what.batch_size, what.trainers, what.batch_size, what.bag, step_indices_max);
  }
  return std::nullopt;
}

// What the network has to fit; nullopt where only the file knows.
std::optional<data_spec> spec_of(const job& what, data_kind kind) {
  const auto spec = [&what](std::size_t tables, std::size_t dim, std::size_t dense_features, std::size_t classes) {
    return data_spec{std::vector<table_spec>(tables, {what.rows, dim}), dense_features,
                     outputs_for(what.loss, classes)};
  };
  switch (kind) {
    case data_kind::adult:
      return spec(adult_tables, what.dim, adult_dense_features, adult_classes);
    case data_kind::tutorial:
      return spec(1, tutorial_dim, 0, tutorial_classes);
    case data_kind::synthetic:
      return spec(what.tables, what.dim, 0, what.classes);
    case data_kind::criteo:
      return spec(criteo_tables, what.dim, criteo_dense_features, 2);
    case data_kind::csv:
    case data_kind::replay:
      break;
  }
  return std::nullopt;
}

}  // namespace

void complete_job(job& what, data_kind kind) {
  const auto spec = spec_of(what, kind);
  if (what.interaction == interaction_kind::dot && !what.bottom_hidden && spec && spec->dense_features > 0)
    what.bottom_hidden = default_bottom_hidden();
}

std::optional<std::string> check_job(const job& what, data_kind kind) {
  if (what.servers == 0 && kind != data_kind::replay) {
    return fmt::format("--servers 0: must be between 1 and {}; {} has tables, which servers keep", actors_max,
                       what.data);
  }
  if (auto wrong = check_loss(what, kind)) return wrong;
  if (kind == data_kind::synthetic) {
    if (auto wrong = check_synthetic(what)) return wrong;
  }
  if (what.bottom_hidden && what.interaction != interaction_kind::dot) {
    return fmt::format(
        "--bottom-hidden {}: only --interaction dot has a bottom MLP; leave it out, or use --interaction dot",
        widths_text(*what.bottom_hidden));
  }
  const auto spec = spec_of(what, kind);
  return spec ? check_network(what, *spec) : std::nullopt;
}

}  // namespace troupe
