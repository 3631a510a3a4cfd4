#include "nn/layer_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <functional>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/json_text.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "nn/option_fields.hpp"
#include "nn/samples.hpp"

namespace troupe::nn {

std::string shown_value(const boost::json::value& value) {
  if (value.is_double()) return fmt::format("{}", value.get_double());
  const auto* text = value.if_string();
  return printable(text != nullptr ? std::string_view(*text) : std::string_view(boost::json::serialize(value)));
}

bool read_real(const boost::json::value& value, double& to) {
  boost::json::error_code ec;
  const auto number = value.to_number<double>(ec);
  if (ec) return false;
  to = parse_number<double>(fmt::format("{:.15g}", number)).value_or(number);
  return true;
}

namespace {

namespace json = boost::json;

/// An error text about a layer, for after "layer 2 (conv2d): "; null: none.
using layer_fault = std::optional<std::string>;

constexpr std::size_t layer_list_max = 1000;

const std::vector<std::string>& layer_names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names;
    all_layers::for_each([&]<class Layer>() { names.emplace_back(Layer::options::kind); });
    return names;
  }();
  return all;
}

template <class Options>
constexpr bool has_layers = requires(Options of) {
  of.layers.front().options;
};

layer_fault no_such_option(const std::string& name, const std::string& kind, std::vector<std::string> of_kind,
                           bool has_inner) {
  if (std::ranges::find(layer_keys(), name) == layer_keys().end())
    return fmt::format("{}: unknown option; the nearest is {}, and there are {}", printable(name),
                       nearest(name, layer_keys()), of_kind.empty() ? "none of this kind" : alternatives(of_kind));
  if (has_inner) of_kind.emplace_back("layers");
  return fmt::format("{}: {} has no such option; it has {}", name, kind,
                     of_kind.empty() ? "none" : alternatives(of_kind));
}

layer_fault read_layer_list(const json::value& from, std::vector<layer_spec>& to);

layer_fault read_inner_layers(const json::value& from, std::vector<layer_spec>& to) {
  const auto* layers = from.if_array();
  if (layers == nullptr || layers->empty())
    return fmt::format("layers {}: must be an array of at least one object", shown_value(from));
  return read_layer_list(from, to);
}

template <class Options>
layer_fault read_options(const json::object& from, Options& to) {
  const auto& fields = fields_of<Options>();
  for (const auto& member : from) {
    const std::string name(member.key());
    if (name == "kind") continue;
    if constexpr (has_layers<Options>)
      if (name == "layers") {
        if (auto refused = read_inner_layers(member.value(), to.layers)) return refused;
        continue;
      }
    const auto field = std::ranges::find(fields, name, &option_field<Options>::name);
    if (field == fields.end())
      return no_such_option(name, Options::kind, names_in(fields, &option_field<Options>::name), has_layers<Options>);
    if (!field->read(member.value(), to) || !field->fits(to))
      return fmt::format("{} {}: must be {}", name, shown_value(member.value()), field->limit);
  }
  for (const auto& field : fields)
    if (field.is_required && !from.contains(field.name))
      return fmt::format("{} is missing: must be {}", field.name, field.limit);
  if constexpr (has_layers<Options>)
    if (to.layers.empty()) return "layers is missing: must be an array of at least one object";
  return std::nullopt;
}

/// Sets `to` to the default options of the kind that `from` names.
layer_fault read_kind(const json::object& from, layer_spec& to) {
  const auto* value = from.if_contains("kind");
  if (value == nullptr) return fmt::format("kind is missing: must be {}", alternatives(layer_names()));
  const auto* text = value->if_string();
  if (text == nullptr) return fmt::format("kind {}: must be {}", shown_value(*value), alternatives(layer_names()));
  bool is_known = false;
  all_layers::for_each([&]<class Layer>() {
    if (std::string_view(*text) != Layer::options::kind) return;
    to.options = typename Layer::options();
    is_known = true;
  });
  if (is_known) return std::nullopt;
  const std::string name(*text);
  return fmt::format("kind {}: unknown; {}", printable(name), suggestions(name, layer_names()));
}

layer_fault read_layer_list(const json::value& from, std::vector<layer_spec>& to) {
  const auto* layers = from.if_array();
  if (layers == nullptr) return "must be a JSON array of objects";
  if (layers->size() > layer_list_max)
    return fmt::format("has {} layers; must be at most {}", layers->size(), layer_list_max);
  for (const auto& one : *layers) {
    const auto* object = one.if_object();
    if (object == nullptr) return fmt::format("layer {}: {}: must be an object", to.size(), shown_value(one));
    layer_spec spec;
    if (auto refused = read_kind(*object, spec)) return fmt::format("layer {}: {}", to.size(), *refused);
    if (auto refused = std::visit([&](auto& options) { return read_options(*object, options); }, spec.options))
      return fmt::format("layer {} ({}): {}", to.size(), kind_of(spec), *refused);
    to.push_back(std::move(spec));
  }
  return std::nullopt;
}

json::array in_json(const std::vector<layer_spec>& layers);

template <class Options>
json::object in_json(const Options& of) {
  const Options usual;
  json::object object{{"kind", Options::kind}};
  for (const auto& field : fields_of<Options>()) {
    json::value value = field.write(of);
    if (field.is_required || value != field.write(usual)) object[field.name] = std::move(value);
  }
  if constexpr (has_layers<Options>) object["layers"] = in_json(of.layers);
  return object;
}

json::array in_json(const std::vector<layer_spec>& layers) {
  json::array all;
  for (const layer_spec& one : layers)
    all.push_back(std::visit([](const auto& options) { return in_json(options); }, one.options));
  return all;
}

}  // namespace

std::string kind_of(const layer_spec& layer) {
  return std::visit([]<class Options>(const Options&) { return Options::kind; }, layer.options);
}

const std::vector<std::string>& layer_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all{"kind"};
    all_layers::for_each([&]<class Layer>() {
      for (const auto& field : fields_of<typename Layer::options>())
        if (std::ranges::find(all, field.name) == all.end()) all.emplace_back(field.name);
    });
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
    if (key != "kind" && !value.is_array()) parts.push_back(fmt::format("{} {}", key, shown_value(value)));
  }
  if (const auto* inner = layer.as<residual>())
    for (const layer_spec& one : inner->layers) parts.push_back(kind_of(one));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string to_json(const std::vector<layer_spec>& layers) { return json::serialize(in_json(layers)); }

// -- made -----------------------------------------------------------------------------------

namespace {

template <class Options>
Options fitted(Options to, const troupe::shape& in) {
  if constexpr (requires { to.fit(in); }) to.fit(in);
  return to;
}

/// Throws `error` if the layers inside cannot be.
residual made_residual(const residual::options& of, const troupe::shape& in) {
  const auto inner = make_layers(of.layers, in);
  if (!inner) throw error(error_kind::input, "residual: " + inner.error().message);
  std::vector<std::shared_ptr<const module>> modules;
  for (const made_layer& one : *inner) modules.push_back(one.what);
  const troupe::shape& out = inner->back().out;
  if (!(out == in))
    throw error(error_kind::input, fmt::format("residual: its layers make {} of {}, and it adds both; make the shapes "
                                               "equal",
                                               lengths_text(out), lengths_text(in)));
  return residual::of_layers(std::move(modules));
}

/// Throws `error` if the layer cannot take samples `in`.
made_layer made(const layer_spec& spec, const troupe::shape& in) {
  made_layer all{nullptr, in, {}};
  all_layers::for_each([&]<class Layer>() {
    const auto* options = spec.as<Layer>();
    if (options == nullptr) return;
    if constexpr (std::is_same_v<Layer, residual>)
      all.what = std::make_shared<residual>(made_residual(*options, in));
    else
      all.what = std::make_shared<Layer>(fitted(*options, in));
  });
  all.out = all.what->output(batch_of(1, in)).without_first();
  return all;
}

}  // namespace

result<std::vector<made_layer>> make_layers(const std::vector<layer_spec>& specs, const troupe::shape& in) {
  std::vector<made_layer> layers;
  bool is_computed = false;
  for (const layer_spec& spec : specs) {
    const std::string kind = kind_of(spec);
    try {
      const made_layer one = made(spec, layers.empty() ? in : layers.back().out);
      if (is_computed) check_takes_computed(*one.what);
      is_computed = is_computed || !one.what->is_identity();
      layers.push_back(one);
    } catch (const error& e) {
      std::string text = e.what();
      if (text.starts_with(kind + ": ")) text.erase(0, kind.size() + 2);
      return bad_input("layer {} ({}): {}", layers.size(), kind, text);
    }
  }
  return layers;
}

}  // namespace troupe::nn
