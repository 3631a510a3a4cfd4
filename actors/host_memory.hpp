// How much of the host's memory a run of a job takes, estimated before anything is allocated.

#pragma once

#include <optional>
#include <string>

#include "actors/compute_devices.hpp"
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

}  // namespace troupe::actors
