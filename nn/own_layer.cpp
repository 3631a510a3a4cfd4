#include "nn/own_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/error.hpp"
#include "base/text.hpp"
#include "nn/added_names.hpp"
#include "nn/all_layers.hpp"

namespace troupe::nn {

namespace {

struct kinds {
  std::mutex mutex;
  std::vector<own_layer_options> added;
};

kinds& all_kinds() {
  static kinds all;
  return all;
}

}  // namespace

void detail::add_layer(const std::string& kind, std::shared_ptr<const own_options> with_defaults) {
  if (!is_added_name(kind, '_'))
    throw error(error_kind::input,
                fmt::format("add_layer: the kind '{}' must be of lower-case letters, digits and '_', "
                            "a letter first",
                            printable(kind)));
  for (const auto& one : with_defaults->fields())
    if (one.name == "kind" || one.name == "layers")
      throw error(error_kind::input, fmt::format("add_layer: {} has an option '{}', which job files have for another "
                                                 "purpose; choose another name",
                                                 kind, one.name));
  kinds& all = all_kinds();
  const std::scoped_lock lock(all.mutex);
  bool is_taken = std::ranges::find(all.added, kind, &own_layer_options::kind) != all.added.end();
  all_layers::for_each([&]<class Layer>() { is_taken = is_taken || kind == Layer::options::kind; });
  if (is_taken) throw error(error_kind::input, fmt::format("add_layer: there is a layer '{}' already", kind));
  all.added.push_back({kind, std::move(with_defaults)});
}

void detail::check_same_kind(const std::string& added, const std::string& of_options) {
  if (added != of_options)
    throw error(error_kind::input, fmt::format("add_layer: the kind '{}' of a layer whose options have the kind '{}'; "
                                               "use one for both",
                                               printable(added), printable(of_options)));
}

std::vector<own_layer_options> added_layers() {
  kinds& all = all_kinds();
  const std::scoped_lock lock(all.mutex);
  return all.added;
}

bool own_layer_options::operator==(const own_layer_options& other) const {
  if (kind != other.kind || chosen == other.chosen) return kind == other.kind;
  return std::ranges::equal(chosen->fields(), other.chosen->fields(), {}, &detail::own_options::field::value,
                            &detail::own_options::field::value);
}

}  // namespace troupe::nn
