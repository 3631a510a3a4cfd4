#include "nn/own_layer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "nn/added_names.hpp"
#include "nn/all_layers.hpp"

namespace troupe::nn {

namespace {

added_names<own_layer_options>& all_kinds() {
  static added_names<own_layer_options> all("add_layer", "a layer");
  return all;
}

}  // namespace

void detail::add_layer(const std::string& kind, std::shared_ptr<const own_options> with_defaults) {
  check_added_name("add_layer", "kind", kind, '_');
  for (const auto& one : with_defaults->fields())
    if (one.name == "kind" || one.name == "layers")
      throw error(error_kind::input, fmt::format("add_layer: {} has an option '{}', which job files have for another "
                                                 "purpose; choose another name",
                                                 kind, one.name));
  bool is_usual = false;
  all_layers::for_each([&]<class Layer>() { is_usual = is_usual || kind == Layer::options::kind; });
  all_kinds().add(kind, is_usual, {kind, std::move(with_defaults)});
}

void detail::check_same_kind(const std::string& added, const std::string& of_options) {
  if (added != of_options)
    throw error(error_kind::input, fmt::format("add_layer: the kind '{}' of a layer whose options have the kind '{}'; "
                                               "use one for both",
                                               printable(added), printable(of_options)));
}

std::vector<own_layer_options> added_layers() { return all_kinds().all(); }

bool own_layer_options::operator==(const own_layer_options& other) const {
  if (kind != other.kind || chosen == other.chosen) return kind == other.kind;
  return detail::have_same_values(*chosen, *other.chosen);
}

}  // namespace troupe::nn
