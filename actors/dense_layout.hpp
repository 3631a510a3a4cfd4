// The tensors of a model's dense part, and their names in checkpoints: `top.0.weight`, and `top.0.weight.state.0` for
// the optimizer's first buffer of it. A trainer has them in flat arrays: one of the weights, one for each buffer of the
// optimizer, and one of the network's buffers, such as running means, if it has any.

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

  /// Returns the named tensors of a trainer's arrays, which outlive them.
  std::vector<model::tensor_view> views(std::span<const msg::tensor> arrays) const;

  /// Reads a trainer's arrays, of an optimizer with so many buffers, from a checkpoint. Errors: bad input, one of the
  /// tensors is not there or has another size.
  caf::expected<std::vector<msg::tensor>> read(const model::checkpoint& from, int state_buffers) const;
};

}  // namespace troupe::actors
