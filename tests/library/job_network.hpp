// The network of a job that is given by layers, as the library knows it.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/random.hpp"
#include "nn/layer_spec.hpp"
#include "troupe/state.hpp"

namespace troupe::test {

/// Returns a job's initial parameters and buffers, by name, for images of one channel.
inline named_tensors initial_state_of_job(const std::string& layers, std::size_t height, std::size_t width,
                                          std::uint64_t seed) {
  std::vector<std::shared_ptr<const nn::module>> modules;
  const auto made = nn::make_layers(nn::parse_layers(layers).value(), {1, height, width}).value();
  for (const auto& one : made) modules.push_back(one.what);
  const nn::sequential network(std::move(modules));
  nn::flat_numbers numbers = nn::initial_numbers(network, 0);
  network.initialize(
      [=](std::size_t layer) { return model::random_key(seed, model::random_stream::dense_weights, layer); },
      numbers.parameters.data(), numbers.buffers.data());
  named_tensors state;
  const auto add = [&](const std::vector<nn::parameter>& tensors, std::span<const float> flat) {
    for (const auto& one : nn::placed(tensors))
      state.emplace_back(one.name, tensor::of<float>(one.shape, flat.subspan(one.first, one.count())));
  };
  add(network.parameters(), numbers.parameters);
  add(network.buffers(), numbers.buffers);
  return state;
}

}  // namespace troupe::test
