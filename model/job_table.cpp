#include "model/job_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <type_traits>

#include "base/number.hpp"
#include "base/text.hpp"

namespace troupe::model {

namespace {

// How a setting reads and writes one field of a job.
struct codec {
  decltype(job_setting::read) read;
  decltype(job_setting::write) write;
  setting_type type = setting_type::text;
};

using setting_fault = std::optional<std::string>;
using defaults = std::array<const char*, data_kinds>;

template <class... Text>
constexpr defaults each(Text... texts) {
  static_assert(sizeof...(texts) == data_kinds, "one for each data_kind, in its order");
  return {texts...};
}

constexpr defaults everywhere(const char* text) { return each(text, text, text, text, text, text); }
constexpr defaults synthetic_only(const char* text) { return each(nullptr, nullptr, text, nullptr, nullptr, nullptr); }
constexpr defaults files_only(const char* text) { return each(nullptr, nullptr, nullptr, text, text, nullptr); }
constexpr defaults csv_only(const char* text) { return each(nullptr, nullptr, nullptr, nullptr, text, nullptr); }

// -- numbers ---------------------------------------------------------------------------------------------------------

template <class T>
setting_fault read_whole(T& to, std::string_view text, std::uint64_t low, std::uint64_t high) {
  const auto number = parse_number<std::uint64_t>(text);
  if (number && *number >= low && *number <= high) {
    to = static_cast<T>(*number);
    return std::nullopt;
  }
  // Digits, perhaps after a minus: a whole number out of range.
  const auto digits = text.substr(text.starts_with('-') ? 1 : 0);
  const bool is_whole = !digits.empty() && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  return fmt::format("must be {}between {} and {}", is_whole ? "" : "a whole number ", low, high);
}

template <class T>
codec whole(T job::*field, std::uint64_t low, std::uint64_t high) {
  return {[=](job& to, std::string_view text) { return read_whole(to.*field, text, low, high); },
          [=](const job& from) { return fmt::format("{}", from.*field); }, setting_type::whole};
}

setting_fault read_real(double& to, std::string_view text, double high, bool zero_allowed) {
  const auto number = parse_number<double>(text);
  if (number && *number <= high && (zero_allowed ? *number >= 0 : *number > 0)) {
    to = *number;
    return std::nullopt;
  }
  return fmt::format("must be {}{}{:.0f}", number ? "" : "a number ",
                     zero_allowed ? "between 0 and " : "above 0 and at most ", high);
}

constexpr double bucket_mib_max = 65536;
constexpr double id_skew_max = 10;

codec learning_rate(optimizer_spec job::*optimizer) {
  return {[=](job& to, std::string_view text) { return read_real((to.*optimizer).lr, text, learning_rate_max, true); },
          [=](const job& from) { return fmt::format("{}", (from.*optimizer).lr); }, setting_type::real};
}

codec bucket_size() {
  return {[](job& to, std::string_view text) { return read_real(to.bucket_mib, text, bucket_mib_max, false); },
          [](const job& from) { return fmt::format("{}", from.bucket_mib); }, setting_type::real};
}

codec total_steps() {
  return {[](job& to, std::string_view text) {
            std::uint64_t steps = 0;
            auto refused = read_whole(steps, text, 1, 1'000'000'000'000);
            if (!refused) to.steps = steps;
            return refused;
          },
          [](const job& from) { return from.steps ? std::optional(fmt::format("{}", *from.steps)) : std::nullopt; },
          setting_type::whole};
}

// -- names -----------------------------------------------------------------------------------------------------------

setting_fault unknown_name(std::string_view text, const std::vector<std::string>& names) {
  return fmt::format("unknown; the nearest is {}, and there are {}", nearest(std::string(text), names),
                     alternatives(names));
}

template <class Enum>
codec choice(Enum job::*field, const std::vector<std::pair<std::string, Enum>>& names) {
  return {[=](job& to, std::string_view text) -> setting_fault {
            std::vector<std::string> known;
            for (const auto& [name, value] : names) {
              if (name == text) {
                to.*field = value;
                return std::nullopt;
              }
              known.push_back(name);
            }
            return unknown_name(text, known);
          },
          [=](const job& from) {
            return std::ranges::find(names, from.*field, &std::pair<std::string, Enum>::second)->first;
          },
          std::is_same_v<Enum, bool> ? setting_type::truth : setting_type::text};
}

codec consistency_mode() {
  return {[](job& to, std::string_view text) -> setting_fault {
            constexpr std::string_view ssp = "ssp:";
            constexpr std::uint32_t steps_max = 1000;
            if (text == "sync") {
              to.staleness = 0;
            } else if (text == "async") {
              to.staleness = any_staleness;
            } else if (text.starts_with(ssp)) {
              auto refused = read_whole(to.staleness, text.substr(ssp.size()), 0, steps_max);
              return refused ? setting_fault("the number of steps " + *refused) : std::nullopt;
            } else {
              return "must be sync, ssp:K (such as ssp:2) or async";
            }
            return std::nullopt;
          },
          [](const job& from) {
            return from.staleness == 0               ? "sync"
                   : from.staleness == any_staleness ? "async"
                                                     : fmt::format("ssp:{}", from.staleness);
          }};
}

codec clip_norm() {
  constexpr double norm_max = 1e6;
  return {[](job& to, std::string_view text) { return read_real(to.clip_norm, text, norm_max, true); },
          [](const job& from) { return fmt::format("{}", from.clip_norm); }, setting_type::real};
}

codec test_fraction() {
  return {[](job& to, std::string_view text) -> setting_fault {
            const auto share = parse_number<double>(text);
            if (!share || !(*share >= 0 && *share < 1)) return "must be a number of at least 0 and below 1";
            to.test_fraction = *share;
            return std::nullopt;
          },
          [](const job& from) { return fmt::format("{}", from.test_fraction); }, setting_type::real};
}

// An optional text.
codec text_of(std::string job::*field, setting_type type = setting_type::text) {
  return {[=](job& to, std::string_view text) -> setting_fault {
            if (text.empty()) return "must not be empty";
            to.*field = text;
            return std::nullopt;
          },
          [=](const job& from) { return (from.*field).empty() ? std::nullopt : std::optional(from.*field); }, type};
}

codec separator() {
  return {[](job& to, std::string_view text) -> setting_fault {
            if (text == "tab") text = "\t";
            if (text.size() != 1 || text == "\n" || text == "\r" || text == "\"")
              return "must be a single character other than a quote or a line's end, or tab";
            to.separator = text.front();
            return std::nullopt;
          },
          [](const job& from) { return from.separator == '\t' ? "tab" : std::string(1, from.separator); }};
}

setting_fault read_data(job& to, std::string_view text) {
  if (data_kind_of(text)) {
    to.data = text;
    return std::nullopt;
  }
  const auto name = text.substr(0, text.find(':'));
  if (name == "criteo" || name == "csv" || name == "replay") return fmt::format("must name a file: {}:FILE", name);
  const std::vector<std::string> known(data_names().begin(), data_names().begin() + listed_data_kinds);
  return fmt::format(
      "unknown data set; the nearest is {}, and there are adult, tutorial, synthetic, criteo:FILE and "
      "csv:FILE",
      nearest(std::string(name), known));
}

// -- special spellings -----------------------------------------------------------------------------------------------

constexpr std::string_view zipf_prefix = "zipf:";

codec id_skew() {
  return {
      [](job& to, std::string_view text) -> setting_fault {
        if (text == "uniform") {
          to.id_skew = 0;
          return std::nullopt;
        }
        if (!text.starts_with(zipf_prefix)) return "must be uniform or zipf:S, such as zipf:1.1";
        auto refused = read_real(to.id_skew, text.substr(zipf_prefix.size()), id_skew_max, false);
        return refused ? setting_fault("the exponent " + *refused) : std::nullopt;
      },
      [](const job& from) { return from.id_skew == 0 ? "uniform" : fmt::format("{}{}", zipf_prefix, from.id_skew); }};
}

setting_fault read_widths(std::vector<std::size_t>& to, std::string_view text) {
  constexpr std::size_t layers_max = 64;
  constexpr std::uint64_t width_max = 65536;
  std::vector<std::size_t> widths;
  if (text != "none") {
    for (const auto part : split(text, ',')) {
      std::size_t width = 0;
      if (read_whole(width, part, 1, width_max) || widths.size() == layers_max)
        return fmt::format(
            "must be none, or up to {} whole numbers between 1 and {} with commas between them, such as 64,32",
            layers_max, width_max);
      widths.push_back(width);
    }
  }
  to = std::move(widths);
  return std::nullopt;
}

codec hidden_widths() {
  return {[](job& to, std::string_view text) { return read_widths(to.hidden, text); },
          [](const job& from) { return widths_text(from.hidden); }, setting_type::widths};
}

codec bottom_widths() {
  return {[](job& to, std::string_view text) { return read_widths(to.bottom_hidden.emplace(), text); },
          [](const job& from) {
            return from.bottom_hidden ? std::optional(widths_text(*from.bottom_hidden)) : std::nullopt;
          },
          setting_type::widths};
}

// The learning rate and its schedule are separate settings and do not change.
codec optimizer(optimizer_spec job::*field, optimizer_use use) {
  return {[=](job& to, std::string_view text) -> setting_fault {
            auto spec = parse_optimizer(text, use);
            if (!spec) return std::move(spec.error().message);
            spec->lr = (to.*field).lr;
            spec->schedule = std::move((to.*field).schedule);
            to.*field = std::move(*spec);
            return std::nullopt;
          },
          [=](const job& from) { return to_string(from.*field); }};
}

// The schedule applies to both learning rates.
codec schedule() {
  return {[](job& to, std::string_view text) -> setting_fault {
            auto parsed = parse_lr_schedule(text);
            if (!parsed) return std::move(parsed.error().message);
            to.dense_optimizer.schedule = *parsed;
            to.sparse_optimizer.schedule = std::move(*parsed);
            return std::nullopt;
          },
          [](const job& from) { return to_string(from.dense_optimizer.schedule); }};
}

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
      line("data", "Job", "NAME", "data set: adult, tutorial, synthetic, criteo:FILE or csv:FILE",
           everywhere("adult"), {read_data, [](const job& from) { return from.data; }}),
      line("trainers", "Job", "N", "trainers: ranks of the data-parallel group",
           everywhere("2"), whole(&job::trainers, 1, actors_max)),
      line("servers", "Job", "N", "parameter servers; 0 only for a model without tables",
           everywhere("1"), whole(&job::servers, 0, actors_max)),
      line("epochs", "Job", "N", "passes over the training rows; a tutorial epoch is 10 steps, a synthetic one 100",
           each("6", "100", "1", "1", "1", "1"), whole(&job::epochs, 1, epochs_max)),
      line("steps", "Job", "N", "total of global steps, instead of --epochs",
           everywhere(no_default), total_steps()),
      line("batch-size", "Job", "N", "samples per trainer and step",
           each("128", nullptr, "256", "256", "256", nullptr), whole(&job::batch_size, 1, 1'000'000)),
      line("seed", "Job", "N", "seed of weights, shuffling and synthetic data",
           everywhere("1"), whole(&job::seed, 0, std::numeric_limits<std::uint64_t>::max())),
      line("tables", "Tables", "N", "embedding tables",
           synthetic_only("1"), whole(&job::tables, 1, tables_max)),
      line("rows", "Tables", "N", "rows of each table",
           each(nullptr, nullptr, "100000", "100000", "100000", nullptr), whole(&job::rows, 1, 1'000'000'000'000)),
      line("dim", "Tables", "N", "width of each table's rows",
           each("8", nullptr, "16", "16", "16", nullptr), whole(&job::dim, 1, dim_max)),
      line("bag", "Tables", "N", "indices per table and sample",
           synthetic_only("10"), whole(&job::bag, 1, 65536)),
      line("classes", "Tables", "N", "classes of the targets",
           each(nullptr, nullptr, "2", nullptr, "2", nullptr), whole(&job::classes, 2, 65536)),
      line("id-skew", "Tables", "SKEW", "how often each row occurs: uniform, or zipf:S with exponent S",
           synthetic_only("uniform"), id_skew()),
      line("row-dtype", "Tables", "TYPE", "how the tables' rows are stored: f32, f16 or bf16; optimizer state is always f32",
           everywhere("f32"), choice<kernels::row_dtype>(&job::row_dtype, {{"f32", kernels::row_dtype::f32},
                                                                           {"f16", kernels::row_dtype::f16},
                                                                           {"bf16", kernels::row_dtype::bf16}})),
      line("columns", "Data files", "JSON", "the columns of a csv file; in a job file: one [[columns]] entry each",
           csv_only(no_default), text_of(&job::columns, setting_type::columns)),
      line("header", "Data files", "BOOL", "whether the first line of a csv file names its columns: true or false",
           csv_only("true"), choice<bool>(&job::header, {{"true", true}, {"false", false}})),
      line("separator", "Data files", "CHAR", "what stands between the columns of a csv file: one character, or tab",
           csv_only(","), separator()),
      line("test-file", "Data files", "FILE", "rows held out for evaluation, in the same format",
           files_only(no_default), text_of(&job::test_file)),
      line("test-fraction", "Data files", "SHARE", "share of the training file's rows held out for evaluation instead",
           files_only("0"), test_fraction()),
      line("shuffle-rows", "Data files", "N", "rows of the window within which a file is shuffled",
           files_only("65536"), whole(&job::shuffle_rows, 1, 1'000'000'000)),
  };
  // clang-format on
}

/// Settings of the network and its training.
std::vector<job_setting> training_settings() {
  // clang-format off
  return {
      line("hidden", "Model", "WIDTHS", "widths of the hidden layers, such as 64,32, or none",
           each("64,32", "none", "64", "64,32", "64,32", "none"), hidden_widths()),
      line("interaction", "Model", "NAME", "how tables and dense features meet: cat (side by side), or dot (DLRM: pairwise dots)",
           everywhere("cat"), choice<interaction_kind>(&job::interaction, {{"cat", interaction_kind::cat},
                                                                           {"dot", interaction_kind::dot}})),
      line("bottom-hidden", "Model", "WIDTHS", "with dot: hidden widths of the bottom MLP, from the dense features to a row's width (64)",
           everywhere(no_default), bottom_widths()),
      line("loss", "Model", "NAME", "cross-entropy, bce-logits or mse",
           each("bce-logits", "cross-entropy", "cross-entropy", "bce-logits", "bce-logits", "cross-entropy"),
           choice<loss_kind>(&job::loss, {{"cross-entropy", loss_kind::cross_entropy},
                                          {"bce-logits", loss_kind::bce_logits},
                                          {"mse", loss_kind::mse}})),
      line("dense-optimizer", "Optimizers", "SPEC", "NAME[:key=value,...] for the dense weights: sgd, adagrad or adam",
           each("adam", "sgd", "sgd", "sgd", "sgd", "sgd"), optimizer(&job::dense_optimizer, optimizer_use::dense)),
      line("sparse-optimizer", "Optimizers", "SPEC", "the same for the tables: these, rowwise-adagrad, lazy-sgd or lazy-adam",
           each("adagrad", "sgd", "sgd", "sgd", "sgd", "sgd"), optimizer(&job::sparse_optimizer, optimizer_use::table)),
      line("dense-lr", "Optimizers", "RATE", "learning rate of the dense weights",
           each("0.002", "0.05", "0.05", "0.05", "0.05", "0.05"), learning_rate(&job::dense_optimizer)),
      line("sparse-lr", "Optimizers", "RATE", "learning rate of the tables",
           everywhere("0.05"), learning_rate(&job::sparse_optimizer)),
      line("lr-schedule", "Optimizers", "SCHEDULE",
           "how learning rates change: constant, warmup:STEPS, step:EVERY,GAMMA, cosine:STEPS, joined by +",
           everywhere("constant"), schedule()),
      line("sparse-reduce", "Working together", "HOW", "how the trainers' table gradients of a step combine: sum or mean",
           each("mean", "sum", "mean", "mean", "mean", "mean"),
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

std::vector<job_setting> make_table() {
  auto all = run_and_data_settings();
  std::ranges::move(training_settings(), std::back_inserter(all));
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
