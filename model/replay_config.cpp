#include "model/replay_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <optional>
#include <string>

#include "base/json_text.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "model/job_table.hpp"
#include "nn/samples.hpp"

namespace troupe::model {

namespace {

namespace json = boost::json;

constexpr std::uint64_t width_max = 65536;
constexpr std::uint64_t count_max = 1'000'000'000'000;
// Limits for a run with layers. Their product cannot overflow.
constexpr std::uint64_t sample_numbers_max = std::uint64_t{1} << 20;
constexpr std::uint64_t samples_max = std::uint64_t{1} << 40;

std::string shown_value(const json::value& value) { return printable(json::serialize(value)); }

// Reads the keys of an object, and keeps the first error. Values read after an error are meaningless, so the caller
// checks once at the end.
class object_reader {
 public:
  /// `where`: the prefix of keys in messages: "" or "tables[0].".
  object_reader(const json::value& value, std::string where) : where_(std::move(where)), object_(value.if_object()) {
    if (object_ == nullptr) refuse(fmt::format("{}{}: must be an object", where_, shown_value(value)));
  }

  const std::optional<std::string>& wrong() const { return wrong_; }
  const std::string& where() const { return where_; }

  void refuse(std::string message) {
    if (!wrong_) wrong_ = std::move(message);
  }

  /// Returns the key's value; null if it is absent or null.
  const json::value* find(const char* key) const {
    const auto* value = object_ == nullptr ? nullptr : object_->if_contains(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  const json::value* need(const char* key) {
    const auto* value = find(key);
    if (value == nullptr) refuse(fmt::format("{}{} is missing", where_, key));
    return value;
  }

  std::uint64_t whole(const json::value& value, const std::string& key, std::uint64_t low, std::uint64_t high) {
    json::error_code ec;
    const auto number = value.to_number<std::uint64_t>(ec);
    if (!ec && number >= low && number <= high) return number;
    refuse(
        fmt::format("{}{} {}: must be a whole number between {} and {}", where_, key, shown_value(value), low, high));
    return low;
  }

  std::uint64_t needed_whole(const char* key, std::uint64_t low, std::uint64_t high) {
    const auto* value = need(key);
    return value == nullptr ? low : whole(*value, key, low, high);
  }

  bool flag(const char* key) {
    const auto* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_bool()) refuse(fmt::format("{}{} {}: must be true or false", where_, key, shown_value(*value)));
    return value->is_bool() && value->as_bool();
  }

  /// Returns the elements of an array; an empty one if it is absent.
  const json::array& array(const char* key) {
    static const json::array no_elements;
    const auto* value = find(key);
    if (value == nullptr) return no_elements;
    if (!value->is_array()) refuse(fmt::format("{}{} {}: must be an array", where_, key, shown_value(*value)));
    return value->is_array() ? value->as_array() : no_elements;
  }

  /// Returns the value that `names` has for the text of `key`; `otherwise` if the key is absent.
  template <class Enum>
  Enum name(const char* key, const std::vector<std::pair<std::string, Enum>>& names, Enum otherwise) {
    const auto* value = find(key);
    if (value == nullptr) return otherwise;
    std::vector<std::string> known;
    for (const auto& [text, meaning] : names) {
      if (value->is_string() && value->as_string() == text) return meaning;
      known.push_back(text);
    }
    refuse(fmt::format("{}{} {}: must be {}", where_, key, shown_value(*value), alternatives(known)));
    return otherwise;
  }

 private:
  std::string where_;
  const json::object* object_;
  std::optional<std::string> wrong_;
};

double number_of(object_reader& reader, const std::string& key, const json::value& value) {
  json::error_code ec;
  const auto number = value.to_number<double>(ec);
  if (ec) reader.refuse(fmt::format("{}{} {}: must be a number", reader.where(), key, shown_value(value)));
  return ec ? 0 : number;
}

// Options of PyTorch that Troupe lacks; 0 is accepted.
bool is_left_at_zero(const std::string& key, const json::value& value) {
  return (key == "dampening" || key == "lr_decay") && value.is_number() && value.to_number<double>() == 0;
}

// Returns an optimizer's object as text for parse_optimizer. Valid if `reader` has no error.
std::string optimizer_text(object_reader& reader, const json::object& object) {
  std::string options;
  const auto append = [&options](std::string_view key, const std::string& value) {
    options += fmt::format("{}{}={}", options.empty() ? ":" : ",", key, value);
  };
  for (const auto& [key, value] : object) {
    const std::string name(key);
    const bool is_off = value.is_null() || (value.is_bool() && !value.as_bool());
    if (name == "kind" || name == "lr" || is_off || is_left_at_zero(name, value)) continue;
    if (name == "betas") {
      const auto* both = value.if_array();
      if (both == nullptr || both->size() != 2) {
        reader.refuse(fmt::format("{}betas {}: must be two numbers", reader.where(), shown_value(value)));
        continue;
      }
      append("beta1", fmt::format("{}", number_of(reader, "betas", (*both)[0])));
      append("beta2", fmt::format("{}", number_of(reader, "betas", (*both)[1])));
    } else {
      append(name, value.is_bool() ? "true" : fmt::format("{}", number_of(reader, name, value)));
    }
  }
  return std::string(object.at("kind").as_string()) + options;
}

optimizer_spec read_optimizer(object_reader& parent, const char* key, optimizer_use use) {
  const auto* value = parent.need(key);
  if (value == nullptr) return {};
  object_reader reader(*value, fmt::format("{}.", key));
  const auto* kind = reader.need("kind");
  if (kind != nullptr && !kind->is_string())
    reader.refuse(fmt::format("{}.kind {}: must be text", key, shown_value(*kind)));
  if (reader.wrong()) return parent.refuse(*reader.wrong()), optimizer_spec{};
  const std::string text = optimizer_text(reader, value->as_object());
  if (reader.wrong()) return parent.refuse(*reader.wrong()), optimizer_spec{};

  auto spec = parse_optimizer(text, use);
  if (!spec) return parent.refuse(fmt::format("{}: {}", key, spec.error().message)), optimizer_spec{};
  spec->lr = std::holds_alternative<adagrad_options>(spec->options) ? 0.01 : 0.001;
  if (const auto* lr = reader.find("lr")) spec->lr = number_of(reader, "lr", *lr);
  if (!(spec->lr >= 0 && spec->lr <= learning_rate_max))
    reader.refuse(fmt::format("{}.lr {}: must be between 0 and {:.0f}", key, spec->lr, learning_rate_max));
  if (reader.wrong()) parent.refuse(*reader.wrong());
  return *spec;
}

table_spec read_table(object_reader& parent, const json::value& value, std::size_t number) {
  object_reader reader(value, fmt::format("tables[{}].", number));
  table_spec table;
  table.rows = static_cast<std::int64_t>(reader.needed_whole("rows", 1, count_max));
  table.dim = reader.needed_whole("dim", 1, width_max);
  table.mode = reader.name<kernels::pooling>(
      "mode", {{"sum", kernels::pooling::sum}, {"mean", kernels::pooling::mean}, {"max", kernels::pooling::max}},
      kernels::pooling::mean);
  table.weighted = reader.flag("weighted");
  if (table.weighted && table.mode != kernels::pooling::sum)
    reader.refuse(fmt::format("tables[{}].weighted true: must be with mode sum only", number));
  if (reader.wrong()) parent.refuse(*reader.wrong());
  return table;
}

void read_input(object_reader& reader, replay_config& config) {
  const auto* value = reader.need("input");
  config.dense_features = 1;
  std::vector<std::uint64_t> lengths;
  for (const auto& length : reader.array("input")) {
    lengths.push_back(reader.whole(length, "input", 1, width_max));
    // Capped just above the limit, so that this cannot overflow.
    config.dense_features = std::min(config.dense_features * lengths.back(), sample_numbers_max + 1);
  }
  if (reader.wrong()) return;
  if (lengths.size() == 1 || lengths.size() == 3)
    config.input = troupe::shape::of(lengths);
  else
    reader.refuse(fmt::format("input {}: must be [features] or [channels, height, width]", shown_value(*value)));
  if (config.dense_features > sample_numbers_max)
    reader.refuse(
        fmt::format("input {}: a sample must have at most {} numbers", shown_value(*value), sample_numbers_max));
}

// Reads the input and network of a run with layers, and checks that the network accepts the input and has the outputs.
void read_layers(object_reader& reader, const json::value& value, replay_config& config) {
  for (const char* other : {"dense_features", "hidden", "tables"}) {
    const auto* given = reader.find(other);
    const bool is_absent = given == nullptr || (given->is_array() && given->as_array().empty());
    if (!is_absent) reader.refuse(fmt::format("{} {}: must be left out with layers", other, shown_value(*given)));
  }
  if (reader.array("layers").empty()) reader.refuse("layers []: must be at least one layer");
  read_input(reader, config);
  config.batch = reader.needed_whole("batch", 1, width_max);
  if (config.steps * config.batch > samples_max)
    reader.refuse(
        fmt::format("batch {}: must be at most {} samples in all {} steps", config.batch, samples_max, config.steps));
  if (reader.wrong()) return;
  auto layers = nn::parse_layers(json::serialize(value));
  if (!layers) return reader.refuse(fmt::format("layers: {}", layers.error().message));
  config.layers = std::move(*layers);
  const auto made = nn::make_layers(config.layers, config.input);
  if (!made) return reader.refuse(fmt::format("layers: {}", made.error().message));
  if (const troupe::shape& out = made->back().out; !(out == troupe::shape(config.outputs)))
    reader.refuse(
        fmt::format("outputs {}: must be {}, which the last layer returns", config.outputs, nn::lengths_text(out)));
}

// Reads the input and network of a run without layers.
void read_tables_and_hidden(object_reader& reader, replay_config& config) {
  if (const auto* features = reader.find("dense_features"))
    config.dense_features = reader.whole(*features, "dense_features", 0, width_max);
  for (const auto& width : reader.array("hidden")) config.hidden.push_back(reader.whole(width, "hidden", 1, width_max));
  for (const auto& table : reader.array("tables"))
    config.tables.push_back(read_table(reader, table, config.tables.size()));
  if (config.tables.empty() && config.dense_features == 0)
    reader.refuse("dense_features 0: must be at least 1 without tables");
}

}  // namespace

data_spec spec_of(const replay_config& config) {
  data_spec spec;
  spec.tables = config.tables;
  spec.dense_features = config.dense_features;
  spec.outputs = config.outputs;
  if (config.input.dimensions() == 3) spec.image = config.input;
  return spec;
}

result<replay_config> parse_replay_config(std::string_view text) {
  TROUPE_TRY(value, parse_json(text));
  object_reader reader(value, "");
  replay_config config;
  config.trainers = static_cast<std::uint32_t>(reader.needed_whole("trainers", 1, actors_max));
  config.steps = reader.needed_whole("steps", 1, count_max);
  config.outputs = reader.needed_whole("outputs", 1, width_max);
  if (const auto* parts = reader.find("micro_batches"))
    config.micro_batches = static_cast<std::uint32_t>(reader.whole(*parts, "micro_batches", 1, micro_batches_max));
  reader.need("loss");
  config.loss = reader.name<loss_kind>(
      "loss",
      {{"cross_entropy", loss_kind::cross_entropy}, {"bce_logits", loss_kind::bce_logits}, {"mse", loss_kind::mse}},
      loss_kind::cross_entropy);
  if (const auto* layers = reader.find("layers"))
    read_layers(reader, *layers, config);
  else
    read_tables_and_hidden(reader, config);
  config.dense_optimizer = read_optimizer(reader, "dense_optimizer", optimizer_use::dense);
  if (!config.tables.empty())
    config.sparse_optimizer = read_optimizer(reader, "sparse_optimizer", optimizer_use::table);
  config.sparse_reduce = reader.name<sparse_reduction>(
      "sparse_reduce", {{"sum", sparse_reduction::sum}, {"mean", sparse_reduction::mean}}, sparse_reduction::mean);
  if (reader.wrong()) return bad_input(*reader.wrong());
  return config;
}

}  // namespace troupe::model
