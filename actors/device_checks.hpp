// What speaks against a job on CUDA devices, before anything is allocated on them.

#pragma once

#include <optional>

#include "actors/compute_devices.hpp"
#include "base/result.hpp"
#include "model/data.hpp"
#include "model/job.hpp"

namespace troupe::actors {

/// Opens the devices. Faults, of kind input: one of them is none that the backend can use, the job has more vectors
/// than their kernels take, or what the job needs on one of them is more than is free there.
std::optional<fault> check_devices(const model::job& what, const model::dataset& data, const compute_devices& devices);

/// Whether a trainer that is about to start fits on its device, beside what is there by now. A fault, of kind input,
/// with what it needs and what is free.
std::optional<fault> check_trainer_memory(const model::job& what, const model::data_spec& spec,
                                          const kernels::device& where);

}  // namespace troupe::actors
