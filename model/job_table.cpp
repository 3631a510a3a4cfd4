#include "model/job_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <limits>

#include "model/job_codecs.hpp"

namespace troupe::model {

namespace {

using namespace codecs;

using defaults = std::array<const char*, data_kinds>;

template <class... Text>
constexpr defaults each(Text... texts) {
  static_assert(sizeof...(texts) == data_kinds, "one for each data_kind, in its order");
  return {texts...};
}

constexpr defaults everywhere(const char* text) { return each(text, text, text, text, text, text, text, text); }
constexpr defaults only(const char* text, std::initializer_list<data_kind> data) {
  defaults made{};
  for (const data_kind kind : data) made.at(static_cast<std::size_t>(kind)) = text;
  return made;
}
constexpr defaults synthetic_only(const char* text) { return only(text, {data_kind::synthetic}); }
constexpr defaults files_only(const char* text) { return only(text, {data_kind::criteo, data_kind::csv}); }
constexpr defaults csv_only(const char* text) { return only(text, {data_kind::csv}); }

// -- the table -------------------------------------------------------------------------------------------------------

job_setting line(const char* name, const char* group, const char* value_name, const char* meaning,
                 const defaults& by_data, codec how) {
  return {name, value_name, meaning, group, by_data, std::move(how.read), std::move(how.write), how.type};
}

constexpr std::uint64_t epochs_max = 1'000'000'000;
constexpr std::uint64_t dim_max = 65536;

/// Settings of the run and its data.
std::vector<job_setting> run_and_data_settings() {
  // clang-format off
  return {
      line("data", "Job", "NAME", "data set: adult, tutorial, synthetic, criteo:FILE, csv:FILE, mnist[:DIR] or idx:IMAGES,LABELS",
           everywhere("adult"), {read_data, [](const job& from) { return from.data; }}),
      line("trainers", "Job", "N", "trainers: ranks of the data-parallel group; all: one for each CUDA device, or core",
           everywhere("2"), whole(&job::trainers, 1, actors_max)),
      line("servers", "Job", "N", "parameter servers; 0 only for a model without tables",
           each("1", "1", "1", "1", "1", "0", "0", "1"), whole(&job::servers, 0, actors_max)),
      line("epochs", "Job", "N", "passes over the training rows; a tutorial epoch is 10 steps, a synthetic one 100",
           each("6", "100", "1", "1", "1", "2", "1", "1"), whole(&job::epochs, 1, epochs_max)),
      line("steps", "Job", "N", "total of global steps, instead of --epochs",
           everywhere(no_default), total_steps()),
      line("batch-size", "Job", "N", "samples per trainer and step",
           each("128", nullptr, "256", "256", "256", "64", "64", nullptr), whole(&job::batch_size, 1, 1'000'000)),
      line("seed", "Job", "N", "seed of weights, shuffling and synthetic data",
           everywhere("1"), whole(&job::seed, 0, std::numeric_limits<std::uint64_t>::max())),
      line("tables", "Tables", "N", "embedding tables",
           synthetic_only("1"), whole(&job::tables, 1, tables_max)),
      line("rows", "Tables", "N", "rows of each table",
           only("100000", {data_kind::synthetic, data_kind::criteo, data_kind::csv}), whole(&job::rows, 1, 1'000'000'000'000)),
      line("dim", "Tables", "N", "width of each table's rows",
           each("8", nullptr, "16", "16", "16", nullptr, nullptr, nullptr), whole(&job::dim, 1, dim_max)),
      line("bag", "Tables", "N", "indices per table and sample",
           synthetic_only("10"), whole(&job::bag, 1, 65536)),
      line("classes", "Tables", "N", "classes of the targets",
           each(nullptr, nullptr, "2", nullptr, "2", nullptr, "10", nullptr), whole(&job::classes, 2, 65536)),
      line("id-skew", "Tables", "SKEW", "how often each row occurs: uniform, or zipf:S with exponent S",
           synthetic_only("uniform"), id_skew()),
      line("row-dtype", "Tables", "TYPE", "how the tables' rows are stored: f32, f16 or bf16; optimizer state is always f32",
           everywhere("f32"), choice<kernels::row_dtype>(&job::row_dtype, {{"f32", kernels::row_dtype::f32},
                                                                           {"f16", kernels::row_dtype::f16},
                                                                           {"bf16", kernels::row_dtype::bf16}})),
      line("table-split", "Tables", "HOW", "how tables are split over servers: large ones by rows, or all of them by columns",
           everywhere("rows"), choice<table_split>(&job::table_split, {{"rows", table_split::rows}, {"columns", table_split::columns}})),
      line("columns", "Data files", "JSON", "the columns of a csv file; in a job file: one [[columns]] entry each",
           csv_only(no_default), optional_text(&job::columns, setting_type::entries)),
      line("header", "Data files", "BOOL", "whether the first line of a csv file names its columns: true or false",
           csv_only("true"), choice<bool>(&job::header, {{"true", true}, {"false", false}})),
      line("separator", "Data files", "CHAR", "what stands between the columns of a csv file: one ASCII character, or tab",
           csv_only(","), separator()),
      line("test-file", "Data files", "FILE", "rows held out for evaluation, in the same format; idx: IMAGES,LABELS",
           only(no_default, {data_kind::criteo, data_kind::csv, data_kind::idx}), optional_text(&job::test_file)),
      line("test-fraction", "Data files", "SHARE", "share of the training file's rows held out for evaluation instead",
           files_only("0"), test_fraction()),
      line("shuffle-rows", "Data files", "N", "rows of the window within which a file is shuffled",
           files_only("65536"), whole(&job::shuffle_rows, 1, 1'000'000'000)),
  };
  // clang-format on
}

/// Settings of the network and its optimizers.
std::vector<job_setting> network_settings() {
  // clang-format off
  return {
      line("hidden", "Model", "WIDTHS", "widths of the hidden layers, such as 64,32, or none",
           each("64,32", "none", "64", "64,32", "64,32", "64", "64", "none"), hidden_widths()),
      line("layers", "Model", "JSON", "the network layer by layer, in place of --hidden; in a job file: one [[layers]] entry each",
           everywhere(no_default), layer_list()),
      line("interaction", "Model", "NAME",
           "how tables and dense features meet: cat (side by side), dot (DLRM: pairwise dots) or dcn (DLRM-DCNv2: cross layers)",
           everywhere("cat"), choice<interaction_kind>(&job::interaction, {{"cat", interaction_kind::cat},
                                                                           {"dot", interaction_kind::dot},
                                                                           {"dcn", interaction_kind::dcn}})),
      line("cross-layers", "Model", "N", "with dcn: cross layers (3)",
           everywhere(no_default), optional_whole(&job::cross_layers, 1, 64)),
      line("cross-rank", "Model", "N", "with dcn: rank of the cross layers' products (512)",
           everywhere(no_default), optional_whole(&job::cross_rank, 1, dim_max)),
      line("bottom-hidden", "Model", "WIDTHS", "with dot and dcn: hidden widths of the bottom MLP, from the dense features to a row's width (64)",
           everywhere(no_default), bottom_widths()),
      line("loss", "Model", "NAME", "cross-entropy, bce-logits or mse",
           each("bce-logits", "cross-entropy", "cross-entropy", "bce-logits", "bce-logits", "cross-entropy",
                "cross-entropy", "cross-entropy"),
           choice<loss_kind>(&job::loss, {{"cross-entropy", loss_kind::cross_entropy},
                                          {"bce-logits", loss_kind::bce_logits},
                                          {"mse", loss_kind::mse}})),
      line("dense-optimizer", "Optimizers", "SPEC", "NAME[:key=value,...] for the dense weights: sgd, adagrad or adam",
           each("adam", "sgd", "sgd", "sgd", "sgd", "adam", "adam", "sgd"),
           optimizer(&job::dense_optimizer, optimizer_use::dense)),
      line("sparse-optimizer", "Optimizers", "SPEC", "the same for the tables: these, rowwise-adagrad, lazy-sgd or lazy-adam",
           each("adagrad", "sgd", "sgd", "sgd", "sgd", "sgd", "sgd", "sgd"),
           optimizer(&job::sparse_optimizer, optimizer_use::table)),
      line("dense-lr", "Optimizers", "RATE", "learning rate of the dense weights",
           each("0.002", "0.05", "0.05", "0.05", "0.05", "0.001", "0.001", "0.05"), learning_rate(&job::dense_optimizer)),
      line("sparse-lr", "Optimizers", "RATE", "learning rate of the tables",
           everywhere("0.05"), learning_rate(&job::sparse_optimizer)),
      line("lr-schedule", "Optimizers", "SCHEDULE",
           "how learning rates change: constant, warmup:STEPS, step:EVERY,GAMMA, cosine:STEPS, joined by +",
           everywhere("constant"), schedule()),
  };
  // clang-format on
}

/// Settings of how the trainers make a step together.
std::vector<job_setting> step_settings() {
  // clang-format off
  return {
      line("sparse-reduce", "Working together", "HOW", "how the trainers' table gradients of a step combine: sum or mean",
           each("mean", "sum", "mean", "mean", "mean", "mean", "mean", "mean"),
           choice<sparse_reduction>(&job::sparse_reduce, {{"sum", sparse_reduction::sum},
                                                          {"mean", sparse_reduction::mean}})),
      line("consistency", "Working together", "MODE", "how old the rows of a lookup may be: sync, ssp:K (at most K steps), or async",
           everywhere("sync"), consistency_mode()),
      line("wire-dtype", "Working together", "TYPE", "how the numbers of rows and of their gradients travel between servers and trainers: f32, f16 or bf16",
           everywhere("f32"), choice<kernels::row_dtype>(&job::wire_dtype, {{"f32", kernels::row_dtype::f32},
                                                                            {"f16", kernels::row_dtype::f16},
                                                                            {"bf16", kernels::row_dtype::bf16}})),
      line("matmul-precision", "Model", "TYPE", "what the factors of matrix products are rounded to: f32; on CUDA devices also tf32 or bf16",
           everywhere("f32"), choice<kernels::matmul_precision>(&job::matmul_precision, {{"f32", kernels::matmul_precision::f32},
                                                                                        {"tf32", kernels::matmul_precision::tf32},
                                                                                        {"bf16", kernels::matmul_precision::bf16}})),
      line("accumulate", "Working together", "N", "batches of each trainer that make one optimizer step",
           everywhere("1"), whole(&job::accumulate, 1, 1'000'000)),
      line("clip-norm", "Optimizers", "NORM", "most that the global norm of a step's gradient may be, dense and tables; 0 no limit",
           everywhere("0"), clip_norm()),
      line("bucket-mib", "Working together", "MIB", "size of an allreduce bucket in MiB; the first one has at most 1",
           everywhere("25"), bucket_size()),
      line("eval-every", "Job", "N", "epochs between evaluations on the test rows; 0 never",
           everywhere("1"), whole(&job::eval_every, 0, epochs_max)),
      line("nan", "Working together", "ACTION", "a step in which any rank saw NaN or Inf: stop the run there, or skip the step on all ranks",
           everywhere("stop"), choice<nan_policy>(&job::nan, {{"stop", nan_policy::stop}, {"skip", nan_policy::skip}})),
  };
  // clang-format on
}

/// Settings of how a batch and a network are cut.
std::vector<job_setting> splitting_settings() {
  // clang-format off
  return {
      line("micro-batches", "Working together", "M", "runs of neighbouring samples in which a trainer's batch is passed through the network, one after the other",
           everywhere("1"), whole(&job::micro_batches, 1, micro_batches_max)),
      line("pipeline", "Working together", "P", "stages that each trainer's network is cut into, by its layers; a trainer of its own computes each",
           everywhere("1"), whole(&job::pipeline, 1, stages_max)),
      line("schedule", "Working together", "NAME", "with --pipeline: the order of a stage's micro-batches, gpipe or 1f1b (the default, with the fewest under way); or pipedream, whose steps overlap, so that weights are stale",
           everywhere(no_default), pipelined_only(choice<pipeline_schedule>(&job::schedule, {{"gpipe", pipeline_schedule::gpipe},
                                                                                            {"1f1b", pipeline_schedule::one_f_one_b},
                                                                                            {"pipedream", pipeline_schedule::pipedream}}))),
      line("stages", "Working together", "LAYERS", "with --pipeline: the layer at which each stage begins, such as 0,3,5; else stages take about as long as each other",
           everywhere(no_default), pipelined_only(stage_begins())),
      line("tensor-parallel", "Working together", "T", "slices of each stage, or of the network, that share pairs of linear layers, the first by its outputs, the second by its inputs; a trainer of its own computes each",
           everywhere("1"), whole(&job::tensor_parallel, 1, slices_max)),
  };
  // clang-format on
}

/// Settings of jobs whose number of trainers changes. Data sets whose batches do not depend on `batch-size` have none.
std::vector<job_setting> elastic_settings() {
  constexpr auto has_batches = [] {
    return each(no_default, nullptr, no_default, no_default, no_default, no_default, no_default, nullptr);
  };
  // clang-format off
  return {
      line("elastic", "Elastic", "MIN:MAX", "trainers may join and leave between attempts (troupe scale), and may be so many; needs --save and --restarts",
           has_batches(), elastic_only(elastic_range())),
      line("elastic-batch", "Elastic", "WHAT", "what stays then: the samples of a step (total, the default), or each trainer's (rank)",
           has_batches(), elastic_only(choice<elastic_batch_kind>(&job::elastic_batch, {{"total", elastic_batch_kind::total},
                                                                                       {"rank", elastic_batch_kind::rank}}))),
      line("elastic-lr", "Elastic", "RULE", "with rank, how learning rates follow the samples of a step: none (the default), linear or sqrt",
           has_batches(), elastic_only(choice<elastic_lr_rule>(&job::elastic_lr, {{"none", elastic_lr_rule::none},
                                                                                 {"linear", elastic_lr_rule::linear},
                                                                                 {"sqrt", elastic_lr_rule::sqrt}}))),
      line("memberships", "Elastic", "LIST", "STEP:TRAINERS with commas between them: from which step on the run has how many trainers; repeats a run",
           has_batches(), elastic_only(memberships())),
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
