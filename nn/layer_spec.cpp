#include "nn/layer_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/json_text.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "nn/option_fields.hpp"
#include "nn/samples.hpp"

namespace troupe::nn {

std::string shown_value(const option_value& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (text != nullptr) return printable(*text);
  return std::visit([](const auto& one) { return fmt::format("{}", one); }, value);
}

std::string_view lasting_text(const std::string& text) {
  static std::mutex mutex;
  static auto* const all = new std::set<std::string>;  // never destroyed
  const std::lock_guard lock(mutex);
  return *all->insert(text).first;
}

void refuse_option(const std::string& kind, const std::string& name, const option_value& given,
                   const std::string& limit, const std::string& others) {
  throw error(error_kind::input, fmt::format("{}: {} {}: must be {}{}", kind, name, shown_value(given), limit,
                                             others.empty() ? "" : fmt::format(" ({})", others)));
}

namespace {

namespace json = boost::json;

std::string shown_json(const json::value& value) {
  if (value.is_double()) return fmt::format("{}", value.get_double());
  const auto* text = value.if_string();
  return printable(text != nullptr ? std::string_view(*text) : std::string_view(json::serialize(value)));
}

/// Returns the value of an option; null for a list, an object or null. Boost.JSON may read the last of 17 digits
/// wrongly, so only 15 digits are used: these it reads exactly.
std::optional<option_value> value_of(const json::value& value) {
  if (value.is_bool()) return value.get_bool();
  if (const auto* text = value.if_string()) return std::string(*text);
  json::error_code ec;
  if (!value.is_double())
    if (const auto whole = value.to_number<std::uint64_t>(ec); !ec) return whole;
  if (const auto* integer = value.if_int64()) return *integer;
  ec = {};
  const auto number = value.to_number<double>(ec);
  if (ec) return std::nullopt;
  return parse_number<double>(fmt::format("{:.15g}", number)).value_or(number);
}

json::value to_json(const option_value& value) {
  return std::visit([](const auto& one) { return json::value(one); }, value);
}

/// An error text about a layer, to follow "layer 2 (conv2d): "; null if there is no error.
using layer_fault = std::optional<std::string>;

constexpr std::size_t layer_list_max = 1000;

std::vector<std::string> layer_names() {
  std::vector<std::string> names;
  all_layers::for_each([&]<class Layer>() { names.emplace_back(Layer::options::kind); });
  for (const own_layer_options& one : added_layers()) names.push_back(one.kind);
  return names;
}

template <class Options>
constexpr bool has_layers = requires(Options of) {
  of.layers.front().options;
};

layer_fault no_such_option(const std::string& name, const std::string& kind, std::vector<std::string> of_kind,
                           bool has_inner) {
  const std::vector<std::string> keys = layer_keys();
  if (std::ranges::find(keys, name) == keys.end())
    return fmt::format("{}: unknown option; the nearest is {}, and there are {}", printable(name), nearest(name, keys),
                       of_kind.empty() ? "none of this kind" : alternatives(of_kind));
  if (has_inner) of_kind.emplace_back("layers");
  return fmt::format("{}: {} has no such option; it has {}", name, kind,
                     of_kind.empty() ? "none" : alternatives(of_kind));
}

layer_fault read_layer_list(const json::value& from, std::vector<layer_spec>& to);

layer_fault read_inner_layers(const json::value& from, std::vector<layer_spec>& to) {
  const auto* layers = from.if_array();
  if (layers == nullptr || layers->empty())
    return fmt::format("layers {}: must be an array of at least one object", shown_json(from));
  return read_layer_list(from, to);
}

/// Calls `set(i, value)` for each given option; it returns false if option i cannot have the value. `inner`: null if
/// the layer has no inner layers.
template <class Field, class Set>
layer_fault read_fields(const json::object& from, const std::string& kind, const std::vector<Field>& fields,
                        std::vector<layer_spec>* inner, const Set& set) {
  for (const auto& member : from) {
    const std::string name(member.key());
    if (name == "kind") continue;
    if (inner != nullptr && name == "layers") {
      if (auto refused = read_inner_layers(member.value(), *inner)) return refused;
      continue;
    }
    const auto field = std::ranges::find(fields, name, &Field::name);
    if (field == fields.end()) return no_such_option(name, kind, names_in(fields, &Field::name), inner != nullptr);
    const auto value = value_of(member.value());
    if (!value || !set(static_cast<std::size_t>(field - fields.begin()), *value))
      return fmt::format("{} {}: must be {}", name, shown_json(member.value()), field->limit);
  }
  for (const auto& field : fields)
    if (field.is_required && !from.contains(field.name))
      return fmt::format("{} is missing: must be {}", field.name, field.limit);
  if (inner != nullptr && inner->empty()) return "layers is missing: must be an array of at least one object";
  return std::nullopt;
}

template <class Options>
layer_fault read_options(const json::object& from, Options& to) {
  const auto& fields = fields_of<Options>();
  std::vector<layer_spec>* inner = nullptr;
  if constexpr (has_layers<Options>) inner = &to.layers;
  return read_fields(from, Options::kind, fields, inner, [&](std::size_t i, const option_value& value) {
    return fields[i].read(value, to) && fields[i].fits(to);
  });
}

layer_fault read_options(const json::object& from, own_layer_options& to) {
  const std::shared_ptr<detail::own_options> changed = to.chosen->copy();
  const auto set = [&](std::size_t i, const option_value& value) { return changed->set(i, value); };
  if (auto refused = read_fields(from, to.kind, changed->fields(), nullptr, set)) return refused;
  to.chosen = changed;
  return std::nullopt;
}

/// Sets `to` to the default options of the kind in `from`.
layer_fault read_kind(const json::object& from, layer_spec& to) {
  const auto* value = from.if_contains("kind");
  if (value == nullptr) return fmt::format("kind is missing: must be {}", alternatives(layer_names()));
  const auto* text = value->if_string();
  if (text == nullptr) return fmt::format("kind {}: must be {}", shown_json(*value), alternatives(layer_names()));
  bool is_known = false;
  all_layers::for_each([&]<class Layer>() {
    if (std::string_view(*text) != Layer::options::kind) return;
    to.options = typename Layer::options();
    is_known = true;
  });
  for (const own_layer_options& one : added_layers())
    if (std::string_view(*text) == one.kind) {
      to.options = one;
      is_known = true;
    }
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
    if (object == nullptr) return fmt::format("layer {}: {}: must be an object", to.size(), shown_json(one));
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
    const option_value value = field.write(of);
    if (field.is_required || value != field.write(usual)) object[field.name] = to_json(value);
  }
  if constexpr (has_layers<Options>) object["layers"] = in_json(of.layers);
  return object;
}

json::object in_json(const own_layer_options& of) {
  json::object object{{"kind", of.kind}};
  for (const auto& field : of.chosen->fields())
    if (field.is_required || !field.is_default) object[field.name] = to_json(field.value);
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
  return std::visit([](const auto& options) { return std::string(options.kind); }, layer.options);
}

std::vector<std::string> layer_keys() {
  std::vector<std::string> all{"kind"};
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(all, name) == all.end()) all.push_back(name);
  };
  all_layers::for_each([&]<class Layer>() {
    for (const auto& field : fields_of<typename Layer::options>()) add(field.name);
  });
  for (const own_layer_options& one : added_layers())
    for (const auto& field : one.chosen->fields()) add(field.name);
  return all;
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
    if (key != "kind" && !value.is_array()) parts.push_back(fmt::format("{} {}", key, shown_json(value)));
  }
  if (const auto* inner = layer.as<residual>())
    for (const layer_spec& one : inner->layers) parts.push_back(kind_of(one));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string to_json(const std::vector<layer_spec>& layers) { return json::serialize(in_json(layers)); }

// -- making layers --------------------------------------------------------------------------

namespace {

template <class Options>
Options fitted(Options to, const troupe::shape& in) {
  if constexpr (requires { to.fit(in); }) to.fit(in);
  return to;
}

/// Throws `error` if the inner layers do not fit.
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

/// Throws `error` if the layer does not accept samples `in`.
made_layer made(const layer_spec& spec, const troupe::shape& in) {
  made_layer all{nullptr, in, {}};
  if (const auto* own = std::get_if<own_layer_options>(&spec.options)) all.what = own->chosen->make(in);
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
