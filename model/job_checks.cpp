#include <fmt/format.h>

#include <array>

#include "base/text.hpp"
#include "kernels/device.hpp"
#include "model/files/csv_columns.hpp"
#include "model/files/idx.hpp"
#include "model/hybrid.hpp"
#include "model/job_codecs.hpp"
#include "model/job_table.hpp"
#include "model/memory.hpp"

namespace troupe::model {

namespace {

// More than any machine can hold; below it no product here overflows 64 bits.
constexpr std::uint64_t table_weights_max = std::uint64_t{1} << 40;

// The features of a file, and the total rows of its tables.
struct file_features {
  std::uint64_t tables = 0;
  std::uint64_t dense = 0;
  std::uint64_t rows = 0;
};

// All zero for a csv file with wrong columns, which `check_files` refuses.
file_features features_of(const job& what, data_kind kind) {
  if (kind == data_kind::criteo)
    return {criteo_tables, criteo_dense_features, criteo_tables * static_cast<std::uint64_t>(what.rows)};
  file_features found;
  for (const auto& column : what.parsed_columns) {
    found.dense += column.kind == csv_kind::numeric ? 1 : 0;
    found.tables += column.is_table() ? 1 : 0;
    found.rows += static_cast<std::uint64_t>(column.rows);
  }
  return found;
}

std::optional<std::string> check_files(const job& what, data_kind kind) {
  const auto rows = static_cast<std::uint64_t>(what.rows);
  if (rows < file_rows_min || rows > file_rows_max)
    return fmt::format("--rows {}: must be between {} and {} for tables of a file", what.rows, file_rows_min,
                       file_rows_max);
  if (!what.test_file.empty() && what.test_fraction > 0)
    return fmt::format("--test-fraction {}: --test-file {} has the test rows already; use one of the two",
                       what.test_fraction, printable(what.test_file));
  if (kind == data_kind::csv) {
    if (what.columns.empty()) return "--columns: must be given with --data csv:FILE: it says what the columns are";
    if (what.parsed_columns.empty()) return std::move(parse_columns(what).error().message);
  }
  const auto features = features_of(what, kind);
  // At most 2^44 rows in total: divides instead of multiplying.
  if (features.rows > table_weights_max / what.dim)
    return fmt::format("--rows {}: {} table(s) of {} rows in all, x {}, would be more than {} weights; use fewer rows",
                       what.rows, features.tables, features.rows, what.dim, table_weights_max);
  return std::nullopt;
}

std::optional<std::string> check_loss(const job& what, data_kind kind) {
  if (kind == data_kind::csv && what.loss == loss_kind::mse && what.classes != 2)
    return fmt::format("--classes {}: --loss mse has no classes; leave it out, or use cross-entropy", what.classes);
  if (what.loss != loss_kind::bce_logits) return std::nullopt;
  if (kind == data_kind::tutorial || kind == data_kind::mnist)
    return fmt::format("--loss bce-logits: needs targets in 2 classes, {}; use cross-entropy or mse",
                       kind == data_kind::mnist ? fmt::format("mnist has {}", mnist_classes)
                                                : fmt::format("the tutorial has {}", tutorial_classes));
  const bool has_classes = kind == data_kind::synthetic || kind == data_kind::csv || kind == data_kind::idx;
  if (has_classes && what.classes != 2)
    return fmt::format("--loss bce-logits: needs --classes 2, not {}; use cross-entropy or mse", what.classes);
  return std::nullopt;
}

std::optional<std::string> check_metrics(const job& what) {
  constexpr std::array compared = {"classes", "logits of two classes", "values"};  // by form
  const auto form = static_cast<nn::loss_form>(what.loss.kind);
  const auto other = std::ranges::find_if(what.metrics, [form](const auto& one) { return one->form != form; });
  if (other == what.metrics.end()) return std::nullopt;
  return fmt::format("--metrics {}: is of outputs that are {}, and with --loss {} they are {}; leave one of them out",
                     (*other)->name, compared.at(static_cast<std::size_t>((*other)->form)),
                     codecs::loss_name().write(what.loss), compared.at(static_cast<std::size_t>(form)));
}

std::optional<std::string> check_synthetic(const job& what) {
  const auto rows = static_cast<std::uint64_t>(what.rows);
  // rows <= 10^12 < 2^40 and tables * dim <= 2^28, so it divides instead of multiplying.
  if (rows > table_weights_max / (what.tables * what.dim))
    return fmt::format("--rows {}: {} table(s) of {} rows x {} would be more than {} weights; use fewer rows",
                       what.rows, what.tables, what.rows, what.dim, table_weights_max);
  const std::uint64_t indices = samples_of_step(what, std::max(what.trainers, what.elastic.trainers_max)) * what.bag;
  if (bounded_product(indices, what.accumulate) > kernels::step_indices_max)
    return fmt::format(
        "--batch-size {}: {} trainers x {} samples x {} indices x {} batches (--accumulate) must be at most {} an "
        "optimizer step; use smaller batches, or fewer",
        what.batch_size, what.trainers, what.batch_size, what.bag, what.accumulate, kernels::step_indices_max);
  return std::nullopt;
}

// Returns the shapes of the data; null if they depend on the file.
std::optional<data_spec> spec_of(const job& what, data_kind kind) {
  const auto spec = [&what](std::size_t tables, std::size_t dim, std::size_t dense_features, std::size_t classes,
                            double bag = 1) {
    const table_spec table{.rows = what.rows, .dim = dim, .indices_per_sample = bag};
    return data_spec{std::vector<table_spec>(tables, table), dense_features, outputs_for(what.loss, classes)};
  };
  switch (kind) {
    case data_kind::adult:
      return spec(adult_tables, what.dim, adult_dense_features, adult_classes);
    case data_kind::tutorial:
      return spec(1, tutorial_dim, 0, tutorial_classes, tutorial_mean_bag);
    case data_kind::synthetic:
      return spec(what.tables, what.dim, 0, what.classes, static_cast<double>(what.bag));
    case data_kind::criteo:
      return spec(criteo_tables, what.dim, criteo_dense_features, criteo_classes);
    case data_kind::csv: {
      const auto features = features_of(what, kind);
      return spec(features.tables, what.dim, features.dense, what.classes);
    }
    case data_kind::mnist: {
      auto images = spec(0, 0, mnist_side * mnist_side, mnist_classes);
      images.image = {1, mnist_side, mnist_side};
      return images;
    }
    case data_kind::idx:
    case data_kind::replay:
    case data_kind::own:
      break;
  }
  return std::nullopt;
}

std::optional<std::string> check_agreement(const job& what) {
  if (what.staleness != any_staleness) return std::nullopt;
  constexpr const char* why = "trainers have no step in common with --consistency async; use sync or ssp:K";
  if (what.clip_norm > 0) return fmt::format("--clip-norm {}: {}", what.clip_norm, why);
  if (what.nan == nan_policy::skip) return fmt::format("--nan skip: {}", why);
  return std::nullopt;
}

std::optional<std::string> check_network_parts(const job& what) {
  if (what.parts() == 1) return std::nullopt;
  const std::string option = parts_option(what);
  if (std::uint64_t{what.trainers} * what.parts() > actors_max)
    return fmt::format(
        "{}: {} trainers (--trainers) of {} stages (--pipeline) of {} slices (--tensor-parallel) are more than {} in "
        "all; use fewer",
        option, what.trainers, what.pipeline, what.tensor_parallel, actors_max);
  if (what.elastic.is_on())
    return fmt::format("{}: --elastic changes the number of whole trainers; leave one of them out", option);
  if (what.matmul_precision != kernels::matmul_precision::f32)
    return fmt::format("{}: parts of a network compute on the processor, in f32; leave out --matmul-precision", option);
  return std::nullopt;
}

/// Refuses settings that need all ranks to agree before a gradient is applied, which overlapping steps cannot do.
std::optional<std::string> check_stream(const job& what) {
  if (!what.streams()) return std::nullopt;
  constexpr const char* schedule = "--schedule pipedream";
  if (what.micro_batches > 1)
    return fmt::format("--micro-batches {}: {} passes whole batches, several of them at a time; leave it out",
                       what.micro_batches, schedule);
  if (what.accumulate > 1)
    return fmt::format("--accumulate {}: {} takes an optimizer step for each batch; leave one of them out",
                       what.accumulate, schedule);
  if (what.clip_norm > 0)
    return fmt::format(
        "--clip-norm {}: with {} stages apply a gradient before the others know it; leave one of them out",
        what.clip_norm, schedule);
  if (what.nan == nan_policy::skip)
    return fmt::format("--nan skip: with {} stages apply a gradient before the others know it; leave one of them out",
                       schedule);
  if (what.tensor_parallel > 1)
    return fmt::format("--tensor-parallel {}: slices work with --schedule gpipe and 1f1b; leave one of them out",
                       what.tensor_parallel);
  if (what.pipeline > lookups_ahead_max + 1)
    return fmt::format("--pipeline {}: with {} there are at most {} stages, as so many batches are under way",
                       what.pipeline, schedule, lookups_ahead_max + 1);
  return std::nullopt;
}

std::optional<std::string> check_split(const job& what) {
  if (what.table_split == table_split::rows) return std::nullopt;
  if (what.sparse_optimizer.as<rowwise_adagrad_options>() != nullptr)
    return "--sparse-optimizer rowwise-adagrad: needs whole rows, which --table-split columns cuts; use adagrad, or "
           "--table-split rows";
  if (what.clip_norm > 0)
    return fmt::format(
        "--clip-norm {}: adds up the squares of whole rows, which --table-split columns cuts; use --table-split rows",
        what.clip_norm);
  return std::nullopt;
}

std::optional<std::string> check_elastic(const job& what) {
  if (!what.elastic.is_on()) return std::nullopt;
  const auto range = fmt::format("--elastic {}:{}", what.elastic.trainers_min, what.elastic.trainers_max);
  if (what.staleness != 0)
    return fmt::format("{}: needs --consistency sync: else the weights would depend on more than the memberships",
                       range);
  if (what.elastic_lr != elastic_lr_rule::none && what.elastic_batch == elastic_batch_kind::total)
    return fmt::format("--elastic-lr {}: with --elastic-batch total a step always has as many samples; use rank",
                       what.elastic_lr == elastic_lr_rule::linear ? "linear" : "sqrt");
  const auto& all = what.elastic.memberships;
  for (const membership& one : all) {
    if (one.first_step % what.accumulate != 0)
      return fmt::format("--memberships: step {} is within an optimizer step of --accumulate {}", one.first_step,
                         what.accumulate);
    if (auto wrong = check_trainers(what, one.trainers))
      return all.size() == 1
                 ? fmt::format("--trainers {}: {}", one.trainers, *wrong)
                 : fmt::format("--memberships: {} trainers from step {} on: {}", one.trainers, one.first_step, *wrong);
  }
  if (std::ranges::find(all, what.trainers, &membership::trainers) == all.end())
    return fmt::format("--trainers {}: --memberships {} has no step with so many; leave one of them out", what.trainers,
                       to_string(all));
  return std::nullopt;
}

}  // namespace

std::optional<data_spec> spec_of(const job& what) {
  const auto kind = data_kind_of(what.data);
  if (kind == data_kind::own) {
    const auto data = open_dataset(what);
    return data ? std::optional((*data)->spec()) : std::nullopt;
  }
  return kind ? spec_of(what, *kind) : std::nullopt;
}

double samples_per_step(const job& what) {
  return data_kind_of(what.data) == data_kind::tutorial ? tutorial_mean_batch
                                                        : static_cast<double>(batch_of_trainer(what));
}

void complete_job(job& what, data_kind kind) {
  if (kind == data_kind::csv) what.parsed_columns = parse_columns(what).value_or(std::vector<csv_column>());
  const auto spec = spec_of(what, kind);
  what.sparse_optimizer.schedule = what.dense_optimizer.schedule;
  if (!what.layers.empty()) what.hidden.clear();
  if (what.interaction == interaction_kind::dcn) {
    if (!what.cross_layers) what.cross_layers = default_cross_layers;
    if (!what.cross_rank) what.cross_rank = default_cross_rank;
  }
  const bool has_bottom = what.interaction != interaction_kind::cat && spec && spec->dense_features > 0;
  if (has_bottom && !spec->tables.empty() && !what.bottom_hidden) what.bottom_hidden = default_bottom_hidden();
}

std::optional<std::string> check_job(const job& what, data_kind kind) {
  const bool has_batch_size = kind != data_kind::tutorial && kind != data_kind::replay;
  if (has_batch_size && what.micro_batches > what.batch_size)
    return fmt::format("--micro-batches {}: a batch has only {} sample{} (--batch-size); use at most {}",
                       what.micro_batches, what.batch_size, what.batch_size > 1 ? "s" : "", what.batch_size);
  for (const auto check : {check_agreement, check_network_parts, check_stream, check_split, check_elastic})
    if (auto wrong = check(what)) return wrong;
  const bool is_file = kind == data_kind::criteo || kind == data_kind::csv;
  if (is_file) {
    if (auto wrong = check_files(what, kind)) return wrong;
  }
  if (kind == data_kind::idx && !what.test_file.empty() && !image_files_of(what.test_file))
    return fmt::format("--test-file {}: must name two files with a comma between them: IMAGES,LABELS",
                       printable(what.test_file));
  const bool is_images = kind == data_kind::mnist || kind == data_kind::idx;
  const bool may_lack_tables = is_images || kind == data_kind::replay || kind == data_kind::own ||
                               (is_file && features_of(what, kind).tables == 0);
  if (what.servers == 0 && !may_lack_tables)
    return fmt::format("--servers 0: must be between 1 and {}; {} has tables, which servers keep", actors_max,
                       what.data);
  if (auto wrong = check_loss(what, kind)) return wrong;
  if (auto wrong = check_metrics(what)) return wrong;
  if (kind == data_kind::synthetic) {
    if (auto wrong = check_synthetic(what)) return wrong;
  }
  if (what.bottom_hidden && what.interaction == interaction_kind::cat)
    return fmt::format(
        "--bottom-hidden {}: only --interaction dot and dcn have a bottom MLP; leave it out, or use one of them",
        widths_text(*what.bottom_hidden));
  if (what.interaction != interaction_kind::dcn) {
    constexpr const char* why = "only --interaction dcn has cross layers; leave it out, or use --interaction dcn";
    if (what.cross_layers) return fmt::format("--cross-layers {}: {}", *what.cross_layers, why);
    if (what.cross_rank) return fmt::format("--cross-rank {}: {}", *what.cross_rank, why);
  }
  const auto spec = spec_of(what, kind);
  return spec ? check_network(what, *spec) : std::nullopt;
}

}  // namespace troupe::model
