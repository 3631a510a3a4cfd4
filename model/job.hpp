// A job: everything that determines the result of a training run. It is made from named settings, which are the same on
// the command line, in job files and in messages.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/nan_policy.hpp"
#include "base/result.hpp"
#include "kernels/device.hpp"
#include "model/data.hpp"
#include "model/elasticity.hpp"
#include "model/files/csv_columns.hpp"
#include "model/optimizer.hpp"
#include "model/table_split.hpp"
#include "nn/layer_spec.hpp"
#include "nn/own_metric.hpp"
#include "nn/pipeline_schedule.hpp"

namespace troupe::model {

/// How the trainers' table gradients of one step combine.
using sparse_reduction = reduction;

/// The interaction of tables' rows and dense features: concatenation, pairwise dots (DLRM), or cross layers
/// (DLRM-DCNv2).
enum class interaction_kind : std::uint8_t { cat, dot, dcn };

using troupe::nan_policy;
using troupe::pipeline_schedule;

/// A staleness without bound: consistency `async`.
constexpr std::uint32_t any_staleness = 0xffff'ffff;

/// Returns how many steps ahead a trainer looks up rows, which may lack `staleness` updates. Looking further ahead
/// would only cost memory.
constexpr std::uint32_t lookups_ahead_max = 8;
constexpr std::uint32_t lookups_ahead(std::uint32_t staleness) {
  return staleness == any_staleness ? 1 : std::min(staleness, lookups_ahead_max);
}

/// The widths of the bottom MLP's hidden layers in DLRM.
inline std::vector<std::size_t> default_bottom_hidden() { return {64}; }
/// The cross layers of `dcn`, as in MLPerf's DLRM-DCNv2.
constexpr std::size_t default_cross_layers = 3;
constexpr std::size_t default_cross_rank = 512;

struct job {
  std::string data = "adult";
  std::uint32_t trainers = 2;
  std::uint32_t servers = 1;
  std::uint64_t epochs = 0;
  std::optional<std::uint64_t> steps;
  std::size_t batch_size = 0;
  std::uint64_t seed = 1;
  std::size_t tables = 0;
  std::int64_t rows = 0;
  std::size_t dim = 0;
  std::size_t bag = 0;
  std::size_t classes = 0;
  /// 0: uniform; else the exponent S of zipf:S.
  double id_skew = 0;
  kernels::row_dtype row_dtype = kernels::row_dtype::f32;
  model::table_split table_split = model::table_split::rows;
  /// csv: a JSON array that describes the columns; see `parse_columns`.
  std::string columns;
  std::vector<csv_column> parsed_columns;  ///< set by `parse_job`; empty if `columns` are wrong
  /// csv: the first line names the columns.
  bool header = true;
  char separator = ',';
  /// Files: the file of test rows. Empty: no test rows, or a share of the training file.
  std::string test_file;
  double test_fraction = 0;
  std::uint64_t shuffle_rows = 0;
  std::vector<std::size_t> hidden;
  /// The network, layer by layer, instead of `hidden`, which is then empty. Empty: an MLP of `hidden`.
  std::vector<nn::layer_spec> layers;
  interaction_kind interaction = interaction_kind::cat;
  /// Null: not given; with `dot` or `dcn`, and dense features, this means `default_bottom_hidden`.
  std::optional<std::vector<std::size_t>> bottom_hidden;
  /// With `dcn`. Null: not given, which means the defaults above.
  std::optional<std::size_t> cross_layers;
  std::optional<std::size_t> cross_rank;
  loss_choice loss;
  nn::own_metrics metrics = {};  ///< metrics of the test rows, added by the program
  optimizer_spec dense_optimizer;
  optimizer_spec sparse_optimizer;
  sparse_reduction sparse_reduce = sparse_reduction::mean;
  /// Optimizer steps that looked-up rows may lack: 0 sync, any_staleness async, else ssp.
  std::uint32_t staleness = 0;
  /// The type of tables' rows and their gradients on the wire between servers and trainers.
  kernels::row_dtype wire_dtype = kernels::row_dtype::f32;
  /// The precision to which the factors of matrix products are rounded.
  kernels::matmul_precision matmul_precision = kernels::matmul_precision::f32;
  /// Batches of each trainer in one optimizer step.
  std::uint32_t accumulate = 1;
  /// The parts in which a trainer's batch is passed through the network (`micro_batch_of`).
  std::uint32_t micro_batches = 1;
  /// The stages into which a trainer's network is cut, each with its own trainer.
  std::uint32_t pipeline = 1;
  pipeline_schedule schedule = pipeline_schedule::one_f_one_b;
  /// The layer at which each stage begins. Empty: chosen so that the stages take similar time.
  std::vector<std::size_t> stages;
  /// The slices of each stage, or of the network, each with its own trainer.
  std::uint32_t tensor_parallel = 1;
  /// Limit of the global norm of a step's gradient; 0: no limit.
  double clip_norm = 0;
  nan_policy nan = nan_policy::stop;
  double bucket_mib = 25;
  std::uint64_t eval_every = 1;
  elasticity elastic;
  /// These two are used only with `elastic`.
  elastic_batch_kind elastic_batch = elastic_batch_kind::total;
  elastic_lr_rule elastic_lr = elastic_lr_rule::none;

  /// Returns whether steps overlap in the pipeline: each stage applies a step's gradient while later steps are active.
  bool streams() const { return pipeline > 1 && schedule == pipeline_schedule::pipedream; }
  /// The most steps of a trainer that are active at the same time.
  std::uint32_t steps_together() const { return streams() ? pipeline : 1; }
  /// The parts of each trainer's network: slices of stages.
  std::uint32_t parts() const { return pipeline * tensor_parallel; }
  /// The members of a run that train: one for each part of each trainer's network.
  std::uint32_t ranks() const { return trainers * parts(); }

  bool operator==(const job&) const = default;
};

/// Returns the option that cuts the job's network into parts, with its value.
std::string parts_option(const job& what);

/// Limits of `micro_batches`, `pipeline` and `tensor_parallel`.
constexpr std::uint32_t micro_batches_max = 1024;
constexpr std::uint32_t stages_max = 64;
constexpr std::uint32_t slices_max = 64;

/// A value of `trainers` other than a number, until the machine that runs the job is known: one per device, or per
/// core.
constexpr const char* all_trainers = "all";

/// A setting: its name without dashes, and its text.
using setting = std::pair<std::string, std::string>;

/// Returns the text of the first setting with that name; null: it is not given.
inline const std::string* value_of(std::span<const setting> settings, std::string_view name) {
  const auto found = std::ranges::find(settings, name, &setting::first);
  return found == settings.end() ? nullptr : &found->second;
}

/// The type of a setting in a job file.
enum class setting_type : std::uint8_t {
  text,
  whole,    ///< a whole number
  real,     ///< a number
  truth,    ///< true or false
  widths,   ///< a list of whole numbers; `none` is the empty list
  names,    ///< a list of texts; `none` is the empty list
  entries,  ///< a JSON array of objects, one [[name]] entry each
};

/// A setting's name, meaning, and default for the help.
struct setting_info {
  std::string name;
  std::string value_name;
  std::string meaning;
  std::string default_text;
  setting_type type = setting_type::text;
  std::string group = {};  ///< heading in the help
};

/// Returns the settings of `parse_job`, in the order of the help.
const std::vector<setting_info>& job_settings();

/// Makes a job from the data set's defaults, overridden by `given`. Refuses unknown names (with the nearest valid one),
/// malformed values, values out of range, and settings that do not apply to the data set. A message about a setting
/// begins with `--name value` or `--name:`; `located` converts this to a job file's line.
result<job> parse_job(const std::vector<setting>& given);

/// Returns every setting that applies to the job's data. Guarantees: `parse_job` makes the same job from them.
std::vector<setting> to_settings(const job& job);

/// Returns the job of a message's settings; they are not parsed while this process holds it. `known`: that job, if the
/// caller has it; else null. Thread: any.
result<std::shared_ptr<const job>> shared_job(const std::vector<setting>& settings, const job* known = nullptr);

}  // namespace troupe::model
