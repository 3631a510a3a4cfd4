// Converts a module's flat parameters or buffers to tensors by name, and back.

#pragma once

#include <string>

#include "actors/trainer/trained_parameters.hpp"
#include "troupe/module.hpp"
#include "troupe/state.hpp"

namespace troupe::runtime {

/// Throws `error` if checkpoints cannot store the module's parameters and buffers by name, with this prefix.
void check_names(const nn::module& of, const std::string& prefix);

/// Returns copies of a module's parameters and buffers. Waits for their device.
named_tensors state_of(const nn::module& of, const actors::trained_parameters& numbers);

/// A module's parameters and buffers, each flat.
struct flat_state {
  tensor parameters;
  tensor buffers;
};

/// Reads the state of a module. Throws an `error` that names every tensor that is missing or unknown, or has another
/// shape or a type other than float32 or float64.
flat_state read_state(const nn::module& of, const named_tensors& from);

}  // namespace troupe::runtime
