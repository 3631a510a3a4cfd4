// The state of modules, replicas and objects of one's own: tensors by name.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "troupe/tensor.hpp"

namespace troupe {

/// Tensors with their names, in the order of the object's parameters; then its buffers.
using named_tensors = std::vector<std::pair<std::string, tensor>>;

}  // namespace troupe
