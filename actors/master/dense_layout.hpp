// The tensors of a model's dense part, and their names in checkpoints: `top.0.weight`, and `top.0.weight.state.0` for
// its first optimizer buffer. A trainer keeps them in flat arrays: one for the weights, one for each optimizer buffer,
// and one for the network's buffers, such as running means, if it has any.

#pragma once

#include <caf/all.hpp>
#include <span>
#include <vector>

#include "model/checkpoint/tensors.hpp"
#include "model/safetensors_writer.hpp"
#include "nn/parameters.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

struct dense_layout {
  std::vector<nn::parameter> parameters = {};
  std::vector<nn::parameter> buffers = {};

  /// Returns the named tensors as views of a trainer's arrays. Requires: the arrays outlive the views.
  std::vector<model::tensor_view> views(std::span<const msg::tensor> arrays) const;

  /// Reads a trainer's arrays from a checkpoint, for an optimizer with `state_buffers` buffers. Errors: bad input, if a
  /// tensor is missing or has another size.
  caf::expected<std::vector<msg::tensor>> read(const model::checkpoint& from, int state_buffers) const;
};

}  // namespace troupe::actors
