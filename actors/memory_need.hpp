// How much memory a run of a job takes on the host and on CUDA devices, estimated before anything is allocated there.

#pragma once

#include <optional>
#include <string>

#include "actors/compute_devices.hpp"
#include "base/result.hpp"
#include "model/data.hpp"
#include "model/job.hpp"

namespace troupe::actors {

/// Bytes of the host's memory that all members of a run take together.
struct host_need {
  double tables = 0;    ///< with the optimizer's state
  double servers = 0;   ///< the indices of a step, and how they are grouped by row
  double trainers = 0;  ///< batches, activations, their gradients, rows, and dense weights with what belongs to them

  double all() const { return tables + servers + trainers; }
};

/// `ahead`: how many batches each trainer has made ahead (`batches_made_ahead`).
host_need need_on_host(const model::job& what, const model::data_spec& spec, const compute_devices& devices,
                       std::size_t ahead);

/// A line that tells a need from 1 GiB on, and what to do if it is more than `available` bytes; null for a smaller one.
std::optional<std::string> describe(const host_need& need, const model::job& what, double available);

/// Opens the devices. Faults, of kind input: the backend cannot use one of them, the job has more vectors than their
/// kernels take, or a device has less free memory than the job needs on it; of kind device: one of them fails.
result<void> check_devices(const model::job& what, const model::dataset& data, const compute_devices& devices);

/// Checks whether a trainer that is about to start fits into its device's free memory. Returns a fault, of kind input,
/// with what it needs and what is free.
result<void> check_trainer_memory(const model::job& what, const model::dataset& data, bool step_graphs,
                                  const kernels::device& where);

}  // namespace troupe::actors
