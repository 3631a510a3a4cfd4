// Allreduce by NCCL between CUDA devices.

#pragma once

#include <memory>
#include <span>

#include "kernels/communicator.hpp"

namespace troupe::kernels::cuda {

communicator_id make_communicator_id();

/// As `backend::connect`.
std::unique_ptr<communicator> connect(const communicator_id& id, std::span<device* const> mine, int first_rank,
                                      int ranks);

}  // namespace troupe::kernels::cuda
