#include "model/job_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <span>

#include "model/job_codecs.hpp"

namespace troupe::model {

namespace {

using namespace codecs;

using defaults = decltype(job_setting::defaults);
using default_of = std::pair<data_kind, const char*>;

/// One default for all data sets except those in `others`, which have their own; null: that data set lacks the setting.
defaults everywhere(const char* text, std::initializer_list<default_of> others = {}) {
  defaults made;
  made.fill(text);
  for (const auto& [kind, own] : others) made.at(static_cast<std::size_t>(kind)) = own;
  return made;
}

/// The defaults of the data sets that have the setting.
defaults only(std::initializer_list<default_of> owners) { return everywhere(nullptr, owners); }

/// Returns the default for the help: each value with its data sets; the most frequent value comes last, without names
/// if all data sets have the setting.
std::string default_text(const defaults& by_data) {
  const std::span listed(by_data.begin(), listed_data_kinds);
  std::vector<std::pair<std::string, std::vector<std::string>>> owners;  // of each value
  for (std::size_t kind = 0; kind < listed.size(); ++kind) {
    if (listed[kind] == nullptr || listed[kind] == std::string_view(no_default)) continue;
    auto same = std::ranges::find(owners, std::string_view(listed[kind]), [](const auto& one) { return one.first; });
    if (same == owners.end()) same = owners.insert(same, {listed[kind], {}});
    same->second.push_back(data_names()[kind]);
  }
  std::string others;
  if (!owners.empty() && std::ranges::find(listed, nullptr) == listed.end()) {
    const auto most = std::ranges::max_element(owners, {}, [](const auto& one) { return one.second.size(); });
    others = most->first;
    owners.erase(most);
  }
  std::string shown;
  for (const auto& [value, names] : owners)
    shown += fmt::format("{}{} {}", shown.empty() ? "" : "; ", fmt::join(names, ", "), value);
  return fmt::format("{}{}{}", shown, shown.empty() || others.empty() ? "" : "; else ", others);
}

// -- the table -------------------------------------------------------------------------------------------------------

job_setting line(const char* name, const char* group, const char* value_name, const char* meaning,
                 const defaults& by_data, const codec& how) {
  return {{name, value_name, meaning, default_text(by_data), how.type, group}, by_data, how.read, how.write};
}

codec row_type(kernels::row_dtype job::*field) {
  using enum dtype;
  return choice(field, {{"f32", f32}, {"f16", f16}, {"bf16", bf16}});
}

bool is_pipelined(const job& of) { return of.pipeline > 1; }
bool is_elastic(const job& of) { return of.elastic.is_on(); }

constexpr std::uint64_t epochs_max = 1'000'000'000;
constexpr std::uint64_t dim_max = 65536;

/// Settings of the run and its data.
std::vector<job_setting> run_and_data_settings() {
  using enum table_split;
  using enum data_kind;
  // clang-format off
  return {
      line("data", "Job", "NAME", "data set: adult, tutorial, synthetic, criteo:FILE, csv:FILE, mnist[:DIR] or idx:IMAGES,LABELS",
           everywhere("adult"), of_job(&job::data, text_form<std::string>{read_data})),
      line("trainers", "Job", "N", "trainers: ranks of the data-parallel group; all: one for each CUDA device, or core",
           everywhere("2"), whole(&job::trainers, 1, actors_max)),
      line("servers", "Job", "N", "parameter servers; 0 only for a model without tables",
           everywhere("1", {{mnist, "0"}, {idx, "0"}}), whole(&job::servers, 0, actors_max)),
      line("epochs", "Job", "N", "passes over the training rows; a tutorial epoch is 10 steps, a synthetic one 100",
           everywhere("1", {{adult, "6"}, {tutorial, "100"}, {mnist, "2"}}), whole(&job::epochs, 1, epochs_max)),
      line("steps", "Job", "N", "total of global steps, instead of --epochs",
           everywhere(no_default), whole(&job::steps, 1, 1'000'000'000'000)),
      line("batch-size", "Job", "N", "samples per trainer and step",
           only({{adult, "128"}, {synthetic, "256"}, {criteo, "256"}, {csv, "256"}, {mnist, "64"}, {idx, "64"}, {own, "256"}}),
           whole(&job::batch_size, 1, 1'000'000)),
      line("seed", "Job", "N", "seed of weights, shuffling and synthetic data",
           everywhere("1"), whole(&job::seed, 0, std::numeric_limits<std::uint64_t>::max())),
      line("tables", "Tables", "N", "embedding tables",
           only({{synthetic, "1"}}), whole(&job::tables, 1, tables_max)),
      line("rows", "Tables", "N", "rows of each table",
           only({{synthetic, "100000"}, {criteo, "100000"}, {csv, "100000"}}), whole(&job::rows, 1, 1'000'000'000'000)),
      line("dim", "Tables", "N", "width of each table's rows",
           only({{adult, "8"}, {synthetic, "16"}, {criteo, "16"}, {csv, "16"}, {own, "16"}}), whole(&job::dim, 1, dim_max)),
      line("bag", "Tables", "N", "indices per table and sample",
           only({{synthetic, "10"}}), whole(&job::bag, 1, 65536)),
      line("classes", "Tables", "N", "classes of the targets",
           only({{synthetic, "2"}, {csv, "2"}, {idx, "10"}}), whole(&job::classes, 2, 65536)),
      line("id-skew", "Tables", "SKEW", "how often each row occurs: uniform, or zipf:S with exponent S",
           only({{synthetic, "uniform"}}), of_job(&job::id_skew, id_skew())),
      line("row-dtype", "Tables", "TYPE", "how the tables' rows are stored: f32, f16 or bf16; optimizer state is always f32",
           everywhere("f32"), row_type(&job::row_dtype)),
      line("table-split", "Tables", "HOW", "how tables are split over servers: large ones by rows, or all of them by columns",
           everywhere("rows"), choice(&job::table_split, {{"rows", rows}, {"columns", columns}})),
      line("columns", "Data files", "JSON", "the columns of a csv file; in a job file: one [[columns]] entry each",
           only({{csv, no_default}}), of_job(&job::columns, any_text(setting_type::entries), [](const job& from) { return !from.columns.empty(); })),
      line("header", "Data files", "BOOL", "whether the first line of a csv file names its columns: true or false",
           only({{csv, "true"}}), choice(&job::header, {{"true", true}, {"false", false}})),
      line("separator", "Data files", "CHAR", "what separates the columns of a csv file: one ASCII character, or tab",
           only({{csv, ","}}), of_job(&job::separator, separator())),
      line("test-file", "Data files", "FILE", "rows held out for evaluation, in the same format; idx: IMAGES,LABELS",
           only({{criteo, no_default}, {csv, no_default}, {idx, no_default}}), of_job(&job::test_file, any_text(), [](const job& from) { return !from.test_file.empty(); })),
      line("test-fraction", "Data files", "SHARE", "share of the training file's rows held out for evaluation instead",
           only({{criteo, "0"}, {csv, "0"}}), of_job(&job::test_fraction, share_of_rows())),
      line("shuffle-rows", "Data files", "N", "rows of the window within which a file is shuffled",
           only({{criteo, "65536"}, {csv, "65536"}}), whole(&job::shuffle_rows, 1, 1'000'000'000)),
  };
  // clang-format on
}

/// Settings of the network and its optimizers.
std::vector<job_setting> network_settings() {
  using enum interaction_kind;
  using enum data_kind;
  // clang-format off
  return {
      line("hidden", "Model", "WIDTHS", "widths of the hidden layers, such as 64,32, or none",
           everywhere("64", {{adult, "64,32"}, {tutorial, "none"}, {criteo, "64,32"}, {csv, "64,32"}, {replay, "none"}}),
           of_job(&job::hidden, layer_widths(), [](const job& from) { return from.layers.empty(); })),
      line("layers", "Model", "JSON", "the network layer by layer, in place of --hidden; in a job file: one [[layers]] entry each",
           everywhere(no_default), of_job(&job::layers, layer_list(), [](const job& from) { return !from.layers.empty(); })),
      line("interaction", "Model", "NAME",
           "how tables and dense features combine: cat (side by side), dot (DLRM: pairwise dots) or dcn (DLRM-DCNv2: cross layers)",
           everywhere("cat"), choice(&job::interaction, {{"cat", cat}, {"dot", dot}, {"dcn", dcn}})),
      line("cross-layers", "Model", "N", "with dcn: cross layers (3)",
           everywhere(no_default), whole(&job::cross_layers, 1, 64)),
      line("cross-rank", "Model", "N", "with dcn: rank of the cross layers' products (512)",
           everywhere(no_default), whole(&job::cross_rank, 1, dim_max)),
      line("bottom-hidden", "Model", "WIDTHS", "with dot and dcn: hidden widths of the bottom MLP, from the dense features to a row's width (64)",
           everywhere(no_default), of_job(&job::bottom_hidden, layer_widths())),
      line("loss", "Model", "NAME", "cross-entropy, bce-logits or mse",
           everywhere("cross-entropy", {{adult, "bce-logits"}, {criteo, "bce-logits"}, {csv, "bce-logits"}}),
           of_job(&job::loss, loss_name())),
      line("metrics", "Model", "NAMES", "with evaluations: metrics that the program has added by nn::add_metric, with commas between them, or none",
           everywhere(no_default), of_job(&job::metrics, metric_names(), [](const job& from) { return !from.metrics.empty(); })),
      line("dense-optimizer", "Optimizers", "SPEC", "NAME[:key=value,...] for the dense weights: sgd, adagrad or adam",
           everywhere("sgd", {{adult, "adam"}, {mnist, "adam"}, {idx, "adam"}}),
           of_job(within(&job::dense_optimizer, &optimizer_spec::options), optimizer(optimizer_use::dense))),
      line("sparse-optimizer", "Optimizers", "SPEC", "the same for the tables: these, rowwise-adagrad, lazy-sgd or lazy-adam",
           everywhere("sgd", {{adult, "adagrad"}}),
           of_job(within(&job::sparse_optimizer, &optimizer_spec::options), optimizer(optimizer_use::table))),
      line("dense-lr", "Optimizers", "RATE", "learning rate of the dense weights",
           everywhere("0.05", {{adult, "0.002"}, {mnist, "0.001"}, {idx, "0.001"}}),
           of_job(within(&job::dense_optimizer, &optimizer_spec::lr), real_number(learning_rate_max, true))),
      line("sparse-lr", "Optimizers", "RATE", "learning rate of the tables",
           everywhere("0.05"), of_job(within(&job::sparse_optimizer, &optimizer_spec::lr), real_number(learning_rate_max, true))),
      line("lr-schedule", "Optimizers", "SCHEDULE",
           "how learning rates change: constant, warmup:STEPS, step:EVERY,GAMMA, cosine:STEPS, joined by +",
           everywhere("constant"), of_job(within(&job::dense_optimizer, &optimizer_spec::schedule), text_form<lr_schedule>{parse_lr_schedule})),
  };
  // clang-format on
}

/// Settings of how the trainers combine their work in a step.
std::vector<job_setting> step_settings() {
  using enum reduction;
  using enum kernels::matmul_precision;
  using enum nan_policy;
  using enum data_kind;
  // clang-format off
  return {
      line("sparse-reduce", "Working together", "HOW", "how the trainers' table gradients of a step combine: sum or mean",
           everywhere("mean", {{tutorial, "sum"}}),
           choice(&job::sparse_reduce, {{"sum", sum}, {"mean", mean}})),
      line("consistency", "Working together", "MODE", "how old the rows of a lookup may be: sync, ssp:K (at most K steps), or async",
           everywhere("sync"), of_job(&job::staleness, consistency_mode())),
      line("wire-dtype", "Working together", "TYPE", "how the numbers of rows and of their gradients travel between servers and trainers: f32, f16 or bf16",
           everywhere("f32"), row_type(&job::wire_dtype)),
      line("matmul-precision", "Model", "TYPE", "what the factors of matrix products are rounded to: f32; on CUDA devices also tf32 or bf16",
           everywhere("f32"), choice(&job::matmul_precision, {{"f32", f32}, {"tf32", tf32}, {"bf16", bf16}})),
      line("accumulate", "Working together", "N", "batches of each trainer that make one optimizer step",
           everywhere("1"), whole(&job::accumulate, 1, 1'000'000)),
      line("clip-norm", "Optimizers", "NORM", "most that the global norm of a step's gradient may be, dense and tables; 0 no limit",
           everywhere("0"), of_job(&job::clip_norm, real_number(1e6, true))),
      line("bucket-mib", "Working together", "MIB", "size of an allreduce bucket in MiB; the first one has at most 1",
           everywhere("25"), of_job(&job::bucket_mib, real_number(65536, false))),
      line("eval-every", "Job", "N", "epochs between evaluations on the test rows; 0 never",
           everywhere("1"), whole(&job::eval_every, 0, epochs_max)),
      line("nan", "Working together", "ACTION", "a step in which any rank saw NaN or Inf: stop the run there, or skip the step on all ranks",
           everywhere("stop"), choice(&job::nan, {{"stop", stop}, {"skip", skip}})),
  };
  // clang-format on
}

/// Settings of how batches and networks are cut.
std::vector<job_setting> splitting_settings() {
  using enum pipeline_schedule;
  // clang-format off
  return {
      line("micro-batches", "Working together", "M", "runs of neighbouring samples in which a trainer's batch is passed through the network, one after the other",
           everywhere("1"), whole(&job::micro_batches, 1, micro_batches_max)),
      line("pipeline", "Working together", "P", "stages that each trainer's network is cut into, by its layers; a trainer of its own computes each",
           everywhere("1"), whole(&job::pipeline, 1, stages_max)),
      line("schedule", "Working together", "NAME", "with --pipeline: the order of a stage's micro-batches, gpipe or 1f1b (the default, with the fewest under way); or pipedream, whose steps overlap, so that weights are stale",
           everywhere(no_default), choice(&job::schedule, {{"gpipe", gpipe}, {"1f1b", one_f_one_b}, {"pipedream", pipedream}}, is_pipelined)),
      line("stages", "Working together", "LAYERS", "with --pipeline: the layer at which each stage begins, such as 0,3,5; else stages take about as long as each other",
           everywhere(no_default), of_job(&job::stages, stage_begins(), [](const job& from) { return is_pipelined(from) && !from.stages.empty(); })),
      line("tensor-parallel", "Working together", "T", "slices of each stage, or of the network, that share pairs of linear layers, the first by its outputs, the second by its inputs; a trainer of its own computes each",
           everywhere("1"), whole(&job::tensor_parallel, 1, slices_max)),
  };
  // clang-format on
}

/// Settings of jobs with a variable number of trainers. They do not apply to data sets whose batches ignore
/// `batch-size`.
std::vector<job_setting> elastic_settings() {
  using enum elastic_batch_kind;
  using enum elastic_lr_rule;
  using enum data_kind;
  const defaults has_batches = everywhere(no_default, {{tutorial, nullptr}, {replay, nullptr}});
  // clang-format off
  return {
      line("elastic", "Elastic", "MIN:MAX", "trainers may join and leave between attempts (troupe scale), and may be so many; needs --save and --restarts",
           has_batches, of_job(&job::elastic, elastic_range(), is_elastic)),
      line("elastic-batch", "Elastic", "WHAT", "what stays then: the samples of a step (total, the default), or each trainer's (rank)",
           has_batches, choice(&job::elastic_batch, {{"total", total}, {"rank", rank}}, is_elastic)),
      line("elastic-lr", "Elastic", "RULE", "with rank, how learning rates follow the samples of a step: none (the default), linear or sqrt",
           has_batches, choice(&job::elastic_lr, {{"none", none}, {"linear", linear}, {"sqrt", sqrt}}, is_elastic)),
      line("memberships", "Elastic", "LIST", "STEP:TRAINERS with commas between them: from which step on the run has how many trainers; repeats a run",
           has_batches, of_job(within(&job::elastic, &elasticity::memberships), text_form<std::vector<membership>>{parse_memberships}, is_elastic)),
  };
  // clang-format on
}

std::vector<job_setting> make_table() {
  auto all = run_and_data_settings();
  std::ranges::move(network_settings(), std::back_inserter(all));
  std::ranges::move(step_settings(), std::back_inserter(all));
  std::ranges::move(splitting_settings(), std::back_inserter(all));
  std::ranges::move(elastic_settings(), std::back_inserter(all));
  return all;
}

}  // namespace

std::string widths_text(const std::vector<std::size_t>& widths) {
  return widths.empty() ? "none" : fmt::format("{}", fmt::join(widths, ","));
}

const std::vector<job_setting>& job_table() {
  static const std::vector<job_setting> table = make_table();
  return table;
}

}  // namespace troupe::model
