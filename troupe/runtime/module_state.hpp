// A module's flat parameters or buffers as tensors by name, and back.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "troupe/module.hpp"
#include "troupe/state.hpp"

namespace troupe::runtime {

/// Appends copies of the tensors.
void append_state(named_tensors& to, const std::vector<nn::parameter>& tensors, std::span<const float> flat);

/// A module's parameters and buffers, each flat.
struct flat_state {
  std::vector<float> parameters;
  std::vector<float> buffers;
};

/// Reads the state of a module. Throws an `error` that names every tensor that is missing, has another shape or type
/// than float32 or float64, or is not the module's.
flat_state read_state(const nn::module& of, const named_tensors& from);

}  // namespace troupe::runtime
