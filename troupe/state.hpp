// The state of modules, replicas and users' objects: tensors by name.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "troupe/tensor.hpp"

namespace troupe {

/// Tensors with their names: the object's parameters in order, then its buffers.
using named_tensors = std::vector<std::pair<std::string, tensor>>;

}  // namespace troupe
