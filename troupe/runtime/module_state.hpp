// A module's flat parameters or buffers as tensors by name, and back.

#pragma once

#include <string>

#include "actors/trained_parameters.hpp"
#include "troupe/module.hpp"
#include "troupe/state.hpp"

namespace troupe::runtime {

/// Throws `error` if checkpoints cannot keep the module's parameters and buffers under their names, behind `prefix`.
void check_names(const nn::module& of, const std::string& prefix);

/// Returns copies of a module's parameters and buffers. Waits for their device.
named_tensors state_of(const nn::module& of, const actors::trained_parameters& numbers);

/// A module's parameters and buffers, each flat.
struct flat_state {
  tensor parameters;
  tensor buffers;
};

/// Reads the state of a module. Throws an `error` that names every tensor that is missing, has another shape or type
/// than float32 or float64, or is not the module's.
flat_state read_state(const nn::module& of, const named_tensors& from);

}  // namespace troupe::runtime
