// Networks as lists of layers: what users write in `[[layers]]` of job files and reference runs have in `layers`, as
// JSON text in settings and messages.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "model/layer.hpp"

namespace troupe::model {

enum class layer_kind : std::uint8_t {
  linear,
  relu,
  gelu,
  dropout,
  conv2d,
  max_pool2d,
  avg_pool2d,
  global_avg_pool2d,
  flatten,
  batch_norm,
  layer_norm,
  low_rank_cross,
  lstm,
  residual
};

/// A layer as a user describes it; a kind has only some of the options, with PyTorch's meanings.
struct layer_spec {
  layer_kind kind = layer_kind::relu;
  std::size_t out = 0;                 ///< linear
  std::size_t out_channels = 0;        ///< conv2d
  std::size_t kernel = 0;              ///< conv2d, pools
  std::size_t stride = 1;              ///< conv2d; pools: 0 means the kernel's size
  std::size_t padding = 0;             ///< conv2d
  bool bias = true;                    ///< conv2d, linear
  double eps = 1e-5;                   ///< norms
  double momentum = 0.1;               ///< batch_norm
  bool scale = true;                   ///< batch_norm: has `weight`
  bool synchronized = false;           ///< batch_norm: with the statistics of all ranks' batches
  double rate = 0;                     ///< dropout: the share that is dropped, below 1
  std::size_t rank = 0;                ///< low_rank_cross
  std::size_t layers = 0;              ///< low_rank_cross: how many
  std::size_t hidden = 0;              ///< lstm: the width of its state
  std::size_t steps = 0;               ///< lstm: of a sample; 0: its shape says how many
  bool last = false;                   ///< lstm: gives the last step's hidden state only
  std::vector<layer_spec> inner = {};  ///< residual: y = x + inner(x); `layers` in files

  bool operator==(const layer_spec&) const = default;
};

/// Returns the name of a kind in files.
std::string to_string(layer_kind kind);

/// Returns the keys of a layer in files: `kind` and all kinds' options.
const std::vector<std::string>& layer_keys();

/// Parses a JSON array of objects {"kind": ..., options}. Refuses unknown kinds and options (with the nearest name),
/// options of other kinds, missing ones, and values out of range; a message names the layer by its number, from 0, and
/// its kind. An empty text is no layers.
result<std::vector<layer_spec>> parse_layers(std::string_view json);
/// Returns JSON from which `parse_layers` makes the same, without options that have their default.
std::string to_json(const std::vector<layer_spec>& layers);

/// Returns a layer's options for people, such as "kernel 3, padding 1", without those that have their default; of a
/// residual the kinds of its layers.
std::string options_text(const layer_spec& layer);

/// Makes a layer for samples of shape `in`. Refuses a shape that it cannot take, naming `number`, the kind and both
/// shapes.
result<std::unique_ptr<const layer>> make_layer(const layer_spec& spec, std::size_t number, const sample_shape& in);

/// Makes all layers of a network, one after the other.
result<std::vector<std::unique_ptr<const layer>>> make_layers(const std::vector<layer_spec>& specs,
                                                              const sample_shape& in);

}  // namespace troupe::model
