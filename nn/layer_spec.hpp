// Networks as lists of layers: `[[layers]]` in job files, `layers` in reference runs, as JSON text in settings and
// messages.

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "nn/all_layers.hpp"
#include "nn/sequential.hpp"

namespace troupe::nn {

/// A layer as the user describes it. Options that follow from its input, such as the number of channels, are not set.
struct layer_spec {
  all_layers::options options = {};

  /// Returns the options if the layer has this type; else null.
  template <class Layer>
  const typename Layer::options* as() const {
    return std::get_if<typename Layer::options>(&options);
  }
  template <class Layer>
  typename Layer::options* as() {
    return std::get_if<typename Layer::options>(&options);
  }
  bool operator==(const layer_spec&) const = default;
};

/// Returns the name of a layer's type in files.
std::string kind_of(const layer_spec& layer);

/// Returns the keys of layers in files: `kind` and all layers' options, each once.
std::vector<std::string> layer_keys();

/// Parses a JSON array of objects {"kind": ..., options}. Refuses unknown kinds and options (naming the nearest one),
/// options of other kinds, missing ones, and values out of range; errors name the layer by its number, from 0, and its
/// kind. An empty text means no layers.
result<std::vector<layer_spec>> parse_layers(std::string_view json);
/// Returns JSON that `parse_layers` reads back, without options that have their default.
std::string to_json(const std::vector<layer_spec>& layers);

/// Returns a layer's options as text for users, such as "kernel 3, padding 1", without those that have their default;
/// for a residual, the kinds of its layers.
std::string options_text(const layer_spec& layer);

/// A layer of a network, and the shapes of its samples.
struct made_layer {
  std::shared_ptr<const module> what;
  troupe::shape in;
  troupe::shape out;
};

/// Makes the layers of a network, in order, for samples of shape `in`. Refuses a shape that a layer does not accept,
/// with its number, its kind and both shapes.
result<std::vector<made_layer>> make_layers(const std::vector<layer_spec>& specs, const troupe::shape& in);

}  // namespace troupe::nn
