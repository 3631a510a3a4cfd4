#include "model/tensor_parallel.hpp"

#include <fmt/format.h>

namespace troupe::model {

namespace {

bool takes_each_number_by_itself(const nn::layer_spec& layer) {
  return layer.as<nn::relu>() != nullptr || layer.as<nn::gelu>() != nullptr;
}

}  // namespace

std::vector<layer_cut> cuts_of(std::span<const nn::layer_spec> layers) {
  std::vector<layer_cut> cuts(layers.size(), layer_cut::none);
  const std::size_t none = layers.size();
  std::size_t first = none;  // of a pair that may be
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].as<nn::linear>() == nullptr) {
      if (!takes_each_number_by_itself(layers[i])) first = none;
    } else if (first == none) {
      first = i;
    } else {
      cuts[first] = layer_cut::outputs;
      cuts[i] = layer_cut::inputs;
      first = none;
    }
  }
  return cuts;
}

std::vector<nn::layer_spec> layers_of_slice(std::vector<nn::layer_spec> layers, std::uint32_t slices) {
  const auto cuts = cuts_of(layers);
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (cuts[i] == layer_cut::outputs) layers[i].as<nn::linear>()->out_features /= slices;
  return layers;
}

std::optional<std::string> check_slices(std::span<const nn::layer_spec> layers, std::uint32_t slices,
                                        const char* option) {
  if (slices == 1) return std::nullopt;
  const auto cuts = cuts_of(layers);
  bool has_pair = false;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (cuts[i] != layer_cut::outputs) continue;
    has_pair = true;
    const std::size_t out = layers[i].as<nn::linear>()->out_features;
    if (out % slices > 0)
      return fmt::format(
          "--tensor-parallel {}: layer {} ({}) has {} outputs, which {} slices cannot share equally; "
          "use a divisor of {}, or another width",
          slices, i, option, out, slices, out);
  }
  if (has_pair) return std::nullopt;
  return fmt::format(
      "--tensor-parallel {}: the network ({}) has no two linear layers with only relu or gelu between them, which "
      "slices share; leave it out",
      slices, option);
}

}  // namespace troupe::model
