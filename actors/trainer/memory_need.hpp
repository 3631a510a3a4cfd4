// How much memory a run of a job needs on the host and on CUDA devices, estimated before anything is allocated there.

#pragma once

#include <optional>
#include <string>

#include "actors/common/compute_devices.hpp"
#include "base/result.hpp"
#include "model/data.hpp"
#include "model/job.hpp"

namespace troupe::actors {

/// Bytes of host memory that all members of a run need together.
struct host_need {
  double tables = 0;    ///< with the optimizer's state
  double servers = 0;   ///< the indices of a step, and their grouping by row
  double trainers = 0;  ///< batches, activations, gradients, rows, and dense weights with their state

  double all() const { return tables + servers + trainers; }
};

/// `ahead`: how many batches are made ahead for each trainer (`batches_made_ahead`).
host_need need_on_host(const model::job& what, const model::data_spec& spec, const compute_devices& devices,
                       std::size_t ahead);

/// Describes a need of 1 GiB or more in one line, with advice if it exceeds `available` bytes; null for a smaller need.
std::optional<std::string> describe(const host_need& need, const model::job& what, double available);

/// Opens the devices and checks them. Fails with kind input if the backend cannot use a device, the job has more
/// vectors than the kernels allow, or a device has less free memory than the job needs; with kind device if a device
/// fails.
result<void> check_devices(const model::job& what, const model::dataset& data, const compute_devices& devices);

/// Checks whether a trainer that is about to start fits into its device's free memory. Fails with kind input, naming
/// the needed and the free memory.
result<void> check_trainer_memory(const model::job& what, const model::dataset& data, bool step_graphs,
                                  const kernels::device& where);

}  // namespace troupe::actors
