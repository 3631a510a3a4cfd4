// Checks whether a job fits on its CUDA devices, before anything is allocated on them.

#pragma once

#include <optional>
#include <string>

#include "actors/compute_devices.hpp"
#include "base/result.hpp"
#include "model/data.hpp"
#include "model/job.hpp"

namespace troupe::actors {

/// Opens the devices. Faults, of kind input: the backend cannot use one of them, the job has more vectors than their
/// kernels take, or a device has less free memory than the job needs on it; of kind device: one of them fails.
result<void> check_devices(const model::job& what, const model::dataset& data, const compute_devices& devices);

/// Returns why a job's steps cannot each be a CUDA graph, and what to do about it; nothing: they can. That takes one
/// trainer whose tables are all on its device, and a step within which the host needs no number.
std::optional<std::string> fault_of_step_graphs(const model::job& what, const model::data_spec& spec,
                                                const compute_devices& devices);

/// Checks whether a trainer that is about to start fits into its device's free memory. Returns a fault, of kind input,
/// with what it needs and what is free.
result<void> check_trainer_memory(const model::job& what, const model::dataset& data, bool step_graphs,
                                  const kernels::device& where);

}  // namespace troupe::actors
