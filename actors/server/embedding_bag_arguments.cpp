#include "actors/server/embedding_bag_arguments.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "actors/common/failure.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "model/memory.hpp"

namespace troupe::actors {

namespace {

// The enumerators' names, by value.
constexpr std::array modes = {"sum", "mean", "max"};
constexpr std::array dtypes = {"f32", "f16", "bf16"};  // as in kernels::row_dtypes
constexpr std::array reductions = {"sum", "mean"};
constexpr std::array splits = {"rows", "columns"};

/// Reads the arguments of a specification by name.
class argument_reader {
 public:
  explicit argument_reader(const msg::arguments& args) : args_(args) {}

  /// `fallback`: the value of an omitted argument; null: the argument is required.
  std::string text(const std::string& name, const char* fallback = nullptr) {
    known_.push_back(name);
    for (const auto& [key, value] : args_)
      if (key == name) return value;
    if (fallback != nullptr) return fallback;
    if (error_.empty()) error_ = fmt::format("EmbeddingBag: argument '{}' is missing", name);
    return {};
  }

  template <class T>
  T number(const std::string& name) {
    const std::string value = text(name);
    const auto number = parse_number<T>(value);
    if (error_.empty() && !number) error_ = fmt::format("EmbeddingBag: argument {}={} is not a number", name, value);
    return number.value_or(T{});
  }

  template <class T>
  T choice(const std::string& name, std::span<const char* const> values, const char* fallback = nullptr) {
    const std::string value = text(name, fallback);
    const auto at = std::ranges::find(values, value);
    if (at != values.end()) return static_cast<T>(at - values.begin());
    if (error_.empty())
      error_ = fmt::format("EmbeddingBag: argument {}={} must be one of {}", name, value, fmt::join(values, ", "));
    return T{};
  }

  /// Returns what is wrong; empty if nothing. Requires: all arguments have been read.
  std::string error() const {
    if (!error_.empty()) return error_;
    for (const auto& [key, value] : args_)
      if (std::ranges::find(known_, key) == known_.end())
        return fmt::format("EmbeddingBag: there is no argument '{}'; the nearest is '{}'", key, nearest(key, known_));
    return {};
  }

 private:
  const msg::arguments& args_;
  std::vector<std::string> known_;
  std::string error_;
};

/// Reads `normal:DEVIATION` or `uniform:LEAST,MOST`; nullopt for any other text.
std::optional<row_init> read_init(std::string_view text) {
  const auto number = [](std::string_view part) {
    const auto read = parse_number<double>(part);
    const bool fits = read && std::abs(*read) <= std::numeric_limits<float>::max();
    return fits ? read : std::nullopt;
  };
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view rest = text.substr(std::min(colon + 1, text.size()));
  if (text.substr(0, colon) == "normal") {
    const auto deviation = number(rest);
    if (!deviation || *deviation < 0 || *deviation > kernels::deviation_max) return std::nullopt;
    return row_init{row_init::kind::normal, *deviation};
  }
  const std::size_t comma = std::min(rest.find(','), rest.size());
  const auto least = number(rest.substr(0, comma));
  const auto most = number(rest.substr(std::min(comma + 1, rest.size())));
  if (text.substr(0, colon) != "uniform" || !least || !most || *least > *most) return std::nullopt;
  return row_init{row_init::kind::uniform, *least, *most};
}

}  // namespace

caf::expected<embedding_bag_arguments> read_embedding_bag(const msg::instantiate& order) {
  argument_reader read(order.spec.args);
  model::embedding_bag_options options;
  options.rows = read.number<std::int64_t>("num_embeddings");
  options.dim = read.number<std::size_t>("embedding_dim");
  options.mode = read.choice<kernels::pooling>("mode", modes);
  options.seed = read.number<std::uint64_t>("seed");
  options.table = read.number<std::uint64_t>("table");
  options.name = read.text("name", "");
  options.shard = {order.shard, order.shards, read.choice<model::table_split>("split", splits, "rows")};
  options.dtype = kernels::row_dtypes[read.choice<std::size_t>("dtype", dtypes, "f32")];
  const std::string init_text = read.text("init", "normal:1");
  const auto init = read_init(init_text);
  const auto optimizer = model::parse_optimizer(read.text("optimizer"), model::optimizer_use::table);
  const auto schedule = model::parse_lr_schedule(read.text("lr_schedule", "constant"));
  const auto lr = read.number<double>("lr");
  const auto reduce = read.choice<model::sparse_reduction>("reduce", reductions);
  if (!read.error().empty()) return make_failure(errc::bad_input, read.error());
  if (!optimizer) return make_failure(errc::bad_input, optimizer.error().message);
  if (!schedule) return make_failure(errc::bad_input, schedule.error().message);
  if (!init)
    return make_failure(errc::bad_input,
                        "EmbeddingBag: argument init={} must be normal:DEVIATION, between 0 and {:.1e}, or "
                        "uniform:LEAST,MOST, of numbers that float32 has",
                        printable(init_text), kernels::deviation_max);
  options.init = *init;
  if (options.rows < 1 || options.dim < 1 || order.shards < 1 || order.shard >= order.shards)
    return make_failure(errc::bad_input, "EmbeddingBag [{}, {}], shard {} of {}: sizes must be at least 1",
                        options.rows, options.dim, order.shard, order.shards);
  if (options.shard.split == model::table_split::columns && order.shards > options.dim)
    return make_failure(errc::bad_input, "EmbeddingBag [{}, {}], {} shards of columns: must be at most {}",
                        options.rows, options.dim, order.shards, options.dim);
  if (options.shard.split == model::table_split::columns && optimizer->as<model::rowwise_adagrad_options>() != nullptr)
    return make_failure(
        errc::bad_input,
        "EmbeddingBag: argument optimizer=rowwise-adagrad needs whole rows, and split=columns cuts them");
  options.optimizer = {optimizer->options, lr, *schedule};
  return embedding_bag_arguments{options, reduce};
}

namespace {

/// Returns the bytes of a shard, including the state of this optimizer.
std::uint64_t bytes_of(const model::embedding_bag_options& options, const model::optimizer_spec& optimizer) {
  const auto rows = static_cast<std::int64_t>(rows_on(static_cast<std::uint64_t>(options.rows), options.shard));
  return model::table_bytes(rows, columns_on(options.dim, options.shard).count, options.dtype, optimizer);
}

caf::error check_device(const model::optimizer_spec& optimizer, const model::embedding_bag_options& options,
                        const kernels::device& where) {
  const auto fault = model::device_fault(optimizer, where, "--server-device");
  return fault ? make_failure(errc::bad_input, "{}: {}", model::description_of(options), *fault) : caf::error();
}

caf::error check_bytes(const std::string& what, std::uint64_t needed, const kernels::device& where) {
  if (where.is_host() && needed > model::available_memory())
    return make_failure(errc::out_of_memory, model::memory_fault(what, needed));
  const std::uint64_t free_there = where.is_host() ? needed : where.memory().free;
  if (needed > free_there)
    return make_failure(errc::out_of_memory,
                        "{} takes {:.0f} MiB, CUDA device {} has {:.0f} MiB free; use --server-device cpu, more "
                        "--servers on more --devices, or fewer rows (--rows)",
                        what, static_cast<double>(needed) / (1024 * 1024), where.number(),
                        static_cast<double>(free_there) / (1024 * 1024));
  return {};
}

}  // namespace

caf::error check_place(const model::embedding_bag_options& options, const kernels::device& where) {
  if (auto wrong = check_device(options.optimizer, options, where)) return wrong;
  return check_bytes(model::description_of(options) + " with its optimizer's state",
                     bytes_of(options, options.optimizer), where);
}

caf::error check_state_place(const model::embedding_bag_options& options, const model::optimizer_spec& optimizer,
                             const kernels::device& where) {
  if (auto wrong = check_device(optimizer, options, where)) return wrong;
  return check_bytes("the optimizer's state of " + model::description_of(options),
                     bytes_of(options, optimizer) - bytes_of(options, {}), where);
}

msg::module_spec embedding_bag_spec(const model::job& job, const model::table_spec& spec, std::size_t table,
                                    model::table_split split) {
  msg::module_spec made{"EmbeddingBag",
                        {{"num_embeddings", std::to_string(spec.rows)},
                         {"embedding_dim", std::to_string(spec.dim)},
                         {"mode", modes[static_cast<std::size_t>(spec.mode)]},
                         {"seed", std::to_string(job.seed)},
                         {"table", std::to_string(table)},
                         {"dtype", dtypes[std::ranges::find(kernels::row_dtypes, job.row_dtype) - kernels::row_dtypes]},
                         {"optimizer", model::to_string(job.sparse_optimizer)},
                         {"lr", fmt::format("{}", model::with_rates_of_members(job.sparse_optimizer, job).lr)},
                         {"lr_schedule", model::to_string(job.sparse_optimizer.schedule)},
                         {"reduce", reductions[static_cast<std::size_t>(job.sparse_reduce)]}}};
  if (split == model::table_split::columns) made.args.emplace_back("split", "columns");
  return made;
}

}  // namespace troupe::actors
