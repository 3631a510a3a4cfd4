// What a module's numbers take, checked before anything is allocated for it: on servers and in replicas. In the host's
// memory it is claimed until it is written, since the system calls available what has not been written yet.

#pragma once

#include <cstdint>
#include <memory>

#include "kernels/device.hpp"
#include "model/memory.hpp"
#include "model/optimizer.hpp"
#include "troupe/module.hpp"

namespace troupe::runtime {

/// Claims what its parameters, their gradient and its buffers take. Throws `error` if the memory of `where` is too
/// small.
model::memory_claim claim_numbers(const nn::module& of, const kernels::device& where);

/// Gives up what is written from the beginning: all but the gradient.
void keep_gradient(model::memory_claim& of_numbers, const nn::module& of);

/// Claims what the state of an optimizer takes. Throws `error` if there is too little for it.
model::memory_claim claim_state(const nn::module& of, const model::optimizer_spec& optimizer,
                                const kernels::device& where);

/// Claims what the mean of the trainers' gradients takes. Throws `error` if there is too little for it.
model::memory_claim claim_mean(const nn::module& of, const kernels::device& where);

/// Does that once for all trainers of this process. `number`: of the replica among its trainer's.
std::shared_ptr<const model::memory_claim> claim_shared_mean(const nn::module& of, std::uint64_t number,
                                                             const kernels::device& where);

}  // namespace troupe::runtime
