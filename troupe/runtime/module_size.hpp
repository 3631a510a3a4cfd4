// Checks a module's memory before anything is allocated for it, on servers and in replicas. Host memory is claimed
// until it is written, since the system counts memory as available until then.

#pragma once

#include <cstdint>
#include <memory>

#include "kernels/device.hpp"
#include "model/memory.hpp"
#include "model/optimizer.hpp"
#include "troupe/module.hpp"

namespace troupe::runtime {

/// Claims memory for its parameters, their gradient and its buffers. Throws `error` if the memory of `where` is too
/// small.
model::memory_claim claim_numbers(const nn::module& of, const kernels::device& where);

/// Releases the claim on memory that is written at once: all but the gradient.
void keep_gradient(model::memory_claim& of_numbers, const nn::module& of);

/// Claims memory for an optimizer's state. Throws `error` if there is too little.
model::memory_claim claim_state(const nn::module& of, const model::optimizer_spec& optimizer,
                                const kernels::device& where);

/// Claims memory for the mean of the trainers' gradients. Throws `error` if there is too little.
model::memory_claim claim_mean(const nn::module& of, const kernels::device& where);

/// Claims it once for all trainers of this process. `number`: the replica's number in its trainer.
std::shared_ptr<const model::memory_claim> claim_shared_mean(const nn::module& of, std::uint64_t number,
                                                             const kernels::device& where);

}  // namespace troupe::runtime
