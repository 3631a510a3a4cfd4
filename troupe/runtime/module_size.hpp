// What a module's numbers take, checked before anything is allocated for it: on servers and in replicas.

#pragma once

#include <cstddef>
#include <memory>

#include "kernels/device.hpp"
#include "model/optimizer.hpp"
#include "troupe/module.hpp"

namespace troupe::runtime {

/// Returns the module. Throws `error` if the memory of `where` is too small for its parameters, their gradient and its
/// buffers.
std::shared_ptr<const nn::module> sized(std::shared_ptr<const nn::module> module, const kernels::device& where);

/// Throws `error` if there is too little for the state of an optimizer besides them.
void check_state_size(const nn::module& of, const model::optimizer_spec& optimizer, const kernels::device& where);

/// Returns how many numbers a module saves of a pass with such an input. Throws `error` if no memory has so many.
std::size_t saved_count(const nn::module& of, const tensor& input);

}  // namespace troupe::runtime
