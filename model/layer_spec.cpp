#include "model/layer_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <functional>
#include <utility>

#include "base/json_text.hpp"
#include "base/number.hpp"
#include "base/text.hpp"

namespace troupe::model {

namespace {

namespace json = boost::json;

// An error text about a layer, for after "layer 2 (conv2d): "; null: none.
using layer_fault = std::optional<std::string>;

constexpr std::size_t layer_width_max = 65536;
constexpr std::size_t window_max = 1024;
constexpr std::size_t cross_layers_max = 64;
constexpr std::size_t layer_list_max = 1000;

const std::vector<std::pair<layer_kind, std::string>> layer_kind_names{
    {layer_kind::linear, "linear"},
    {layer_kind::relu, "relu"},
    {layer_kind::gelu, "gelu"},
    {layer_kind::dropout, "dropout"},
    {layer_kind::conv2d, "conv2d"},
    {layer_kind::max_pool2d, "max_pool2d"},
    {layer_kind::avg_pool2d, "avg_pool2d"},
    {layer_kind::global_avg_pool2d, "global_avg_pool2d"},
    {layer_kind::flatten, "flatten"},
    {layer_kind::batch_norm, "batch_norm"},
    {layer_kind::layer_norm, "layer_norm"},
    {layer_kind::low_rank_cross, "low_rank_cross"},
    {layer_kind::lstm, "lstm"},
    {layer_kind::residual, "residual"},
};

std::vector<std::string> all_kind_names() {
  std::vector<std::string> names;
  names.reserve(layer_kind_names.size());
  for (const auto& [kind, name] : layer_kind_names) names.push_back(name);
  return names;
}

std::string shown_layer_value(const json::value& value) {
  if (value.is_double()) return fmt::format("{}", value.get_double());
  const auto* text = value.if_string();
  return printable(text != nullptr ? std::string_view(*text) : std::string_view(json::serialize(value)));
}

// What a value must be, and how it is read and written.
struct value_codec {
  std::string limit;
  std::function<bool(const json::value&, layer_spec&)> read;  // false: not within the limit
  std::function<json::value(const layer_spec&)> write;
};

value_codec whole_value(std::size_t layer_spec::*field, std::size_t low, std::size_t high) {
  return {fmt::format("a whole number between {} and {}", low, high),
          [=](const json::value& value, layer_spec& to) {
            json::error_code ec;
            const auto number = value.to_number<std::uint64_t>(ec);
            if (ec || number < low || number > high) return false;
            to.*field = number;
            return true;
          },
          [=](const layer_spec& from) { return json::value(static_cast<std::uint64_t>(from.*field)); }};
}

// Boost.JSON reads the last of 17 digits only about right, so 15 count: these it reads as they are written.
value_codec real_value(double layer_spec::*field, std::string limit, bool (*is_within)(double)) {
  return {std::move(limit),
          [=](const json::value& value, layer_spec& to) {
            json::error_code ec;
            const auto number = value.to_number<double>(ec);
            if (ec || !is_within(number)) return false;
            to.*field = parse_number<double>(fmt::format("{:.15g}", number)).value_or(number);
            return is_within(to.*field);
          },
          [=](const layer_spec& from) { return json::value(from.*field); }};
}

value_codec truth_value(bool layer_spec::*field) {
  return {"true or false",
          [=](const json::value& value, layer_spec& to) {
            if (!value.is_bool()) return false;
            to.*field = value.get_bool();
            return true;
          },
          [=](const layer_spec& from) { return json::value(from.*field); }};
}

// An option of some kinds.
struct layer_option {
  const char* name;
  std::vector<layer_kind> kinds;
  bool is_required;
  value_codec value;
};

// Residual's `layers` are no option here: `read_inner_layers`.
const std::vector<layer_option>& layer_options() {
  using kind = layer_kind;
  static const std::vector<layer_option> options{
      {"out", {kind::linear}, true, whole_value(&layer_spec::out, 1, layer_width_max)},
      {"out_channels", {kind::conv2d}, true, whole_value(&layer_spec::out_channels, 1, layer_width_max)},
      {"kernel",
       {kind::conv2d, kind::max_pool2d, kind::avg_pool2d},
       true,
       whole_value(&layer_spec::kernel, 1, window_max)},
      {"stride",
       {kind::conv2d, kind::max_pool2d, kind::avg_pool2d},
       false,
       whole_value(&layer_spec::stride, 1, window_max)},
      {"padding", {kind::conv2d}, false, whole_value(&layer_spec::padding, 0, window_max)},
      {"bias", {kind::linear, kind::conv2d}, false, truth_value(&layer_spec::bias)},
      {"eps",
       {kind::batch_norm, kind::layer_norm},
       false,
       real_value(&layer_spec::eps, "a number above 0 and at most 1", [](double x) { return x > 0 && x <= 1; })},
      {"momentum",
       {kind::batch_norm},
       false,
       real_value(&layer_spec::momentum, "a number between 0 and 1", [](double x) { return x >= 0 && x <= 1; })},
      {"scale", {kind::batch_norm}, false, truth_value(&layer_spec::scale)},
      {"synchronized", {kind::batch_norm}, false, truth_value(&layer_spec::synchronized)},
      {"rate",
       {kind::dropout},
       true,
       real_value(&layer_spec::rate, "a number of at least 0 and below 1", [](double x) { return x >= 0 && x < 1; })},
      {"rank", {kind::low_rank_cross}, true, whole_value(&layer_spec::rank, 1, layer_width_max)},
      {"layers", {kind::low_rank_cross}, true, whole_value(&layer_spec::layers, 1, cross_layers_max)},
      {"hidden", {kind::lstm}, true, whole_value(&layer_spec::hidden, 1, layer_width_max)},
      {"steps", {kind::lstm}, false, whole_value(&layer_spec::steps, 1, layer_width_max)},
      {"last", {kind::lstm}, false, truth_value(&layer_spec::last)},
  };
  return options;
}

bool is_option_of(layer_kind kind, const layer_option& option) {
  return std::ranges::find(option.kinds, kind) != option.kinds.end();
}

layer_spec default_spec(layer_kind kind) {
  layer_spec spec;
  spec.kind = kind;
  if (kind == layer_kind::max_pool2d || kind == layer_kind::avg_pool2d) spec.stride = 0;  // the kernel's size
  return spec;
}

layer_fault no_such_option(const std::string& name, layer_kind kind) {
  std::vector<std::string> of_kind;
  for (const auto& option : layer_options())
    if (is_option_of(kind, option)) of_kind.emplace_back(option.name);
  if (std::ranges::find(layer_keys(), name) == layer_keys().end())
    return fmt::format("{}: unknown option; the nearest is {}, and there are {}", printable(name),
                       nearest(name, layer_keys()), of_kind.empty() ? "none of this kind" : alternatives(of_kind));
  if (kind == layer_kind::residual) of_kind.emplace_back("layers");
  return fmt::format("{}: {} has no such option; it has {}", name, to_string(kind),
                     of_kind.empty() ? "none" : alternatives(of_kind));
}

layer_fault read_layer_kind(const json::object& from, layer_kind& to) {
  const auto* value = from.if_contains("kind");
  if (value == nullptr) return fmt::format("kind is missing: must be {}", alternatives(all_kind_names()));
  const auto* text = value->if_string();
  if (text == nullptr)
    return fmt::format("kind {}: must be {}", shown_layer_value(*value), alternatives(all_kind_names()));
  const std::string name(*text);
  const auto found = std::ranges::find(layer_kind_names, name, &std::pair<layer_kind, std::string>::second);
  if (found == layer_kind_names.end())
    return fmt::format("kind {}: unknown; the nearest is {}, and there are {}", printable(name),
                       nearest(name, all_kind_names()), alternatives(all_kind_names()));
  to = found->first;
  return std::nullopt;
}

layer_fault read_layer_list(const json::value& from, std::vector<layer_spec>& to);

layer_fault read_inner_layers(const json::value& from, layer_spec& to) {
  const auto* layers = from.if_array();
  if (layers == nullptr || layers->empty())
    return fmt::format("layers {}: must be an array of at least one object", shown_layer_value(from));
  return read_layer_list(from, to.inner);
}

layer_fault read_layer_options(const json::object& from, layer_spec& to) {
  for (const auto& member : from) {
    const std::string name(member.key());
    if (name == "kind") continue;
    if (to.kind == layer_kind::residual && name == "layers") {
      if (auto refused = read_inner_layers(member.value(), to)) return refused;
      continue;
    }
    const auto option = std::ranges::find(layer_options(), name, &layer_option::name);
    if (option == layer_options().end() || !is_option_of(to.kind, *option)) return no_such_option(name, to.kind);
    if (!option->value.read(member.value(), to))
      return fmt::format("{} {}: must be {}", name, shown_layer_value(member.value()), option->value.limit);
  }
  for (const auto& option : layer_options())
    if (option.is_required && is_option_of(to.kind, option) && !from.contains(option.name))
      return fmt::format("{} is missing: must be {}", option.name, option.value.limit);
  if (to.kind == layer_kind::residual && to.inner.empty())
    return "layers is missing: must be an array of at least one object";
  return std::nullopt;
}

layer_fault read_layer_list(const json::value& from, std::vector<layer_spec>& to) {
  const auto* layers = from.if_array();
  if (layers == nullptr) return "must be a JSON array of objects";
  if (layers->size() > layer_list_max)
    return fmt::format("has {} layers; must be at most {}", layers->size(), layer_list_max);
  for (const auto& one : *layers) {
    const auto* object = one.if_object();
    if (object == nullptr) return fmt::format("layer {}: {}: must be an object", to.size(), shown_layer_value(one));
    layer_kind kind{};
    if (auto refused = read_layer_kind(*object, kind)) return fmt::format("layer {}: {}", to.size(), *refused);
    layer_spec spec = default_spec(kind);
    if (auto refused = read_layer_options(*object, spec))
      return fmt::format("layer {} ({}): {}", to.size(), to_string(kind), *refused);
    to.push_back(std::move(spec));
  }
  return std::nullopt;
}

json::array in_json(const std::vector<layer_spec>& layers) {
  json::array all;
  for (const layer_spec& one : layers) {
    const layer_spec usual = default_spec(one.kind);
    json::object object{{"kind", to_string(one.kind)}};
    for (const auto& option : layer_options()) {
      if (!is_option_of(one.kind, option)) continue;
      const json::value value = option.value.write(one);
      if (option.is_required || value != option.value.write(usual)) object[option.name] = value;
    }
    if (one.kind == layer_kind::residual) object["layers"] = in_json(one.inner);
    all.push_back(std::move(object));
  }
  return all;
}

}  // namespace

std::string to_string(layer_kind kind) {
  return std::ranges::find(layer_kind_names, kind, &std::pair<layer_kind, std::string>::first)->second;
}

const std::vector<std::string>& layer_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all{"kind"};
    for (const auto& option : layer_options()) all.emplace_back(option.name);
    return all;
  }();
  return keys;
}

result<std::vector<layer_spec>> parse_layers(std::string_view text) {
  std::vector<layer_spec> layers;
  if (text.empty()) return layers;
  const auto parsed = parse_json(text);
  if (!parsed) return bad_input("{}; must be a JSON array of objects", parsed.error().message);
  if (const auto refused = read_layer_list(*parsed, layers)) return bad_input(*refused);
  return layers;
}

std::string options_text(const layer_spec& layer) {
  std::vector<std::string> parts;
  const json::array all = in_json({layer});
  for (const auto& [name, value] : all.front().as_object()) {
    const std::string_view key = name;
    if (key != "kind" && !value.is_array()) parts.push_back(fmt::format("{} {}", key, shown_layer_value(value)));
  }
  for (const layer_spec& one : layer.inner) parts.push_back(to_string(one.kind));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string to_json(const std::vector<layer_spec>& layers) { return json::serialize(in_json(layers)); }

}  // namespace troupe::model
