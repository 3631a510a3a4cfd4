// What a trainer of the program learns from the order to train: the job, its data, its ranks, and its communication
// partners.

#pragma once

#include <caf/timespan.hpp>
#include <cstdint>
#include <memory>

#include "model/job.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// Returns the number of global steps of a job on its data.
inline std::uint64_t total_steps(const model::job& what, const model::dataset& data) {
  return what.steps ? *what.steps : data.epochs().steps_until(what.epochs);
}

struct trainer_assignment {
  std::shared_ptr<const model::job> job;
  std::shared_ptr<const model::dataset> data;
  std::uint32_t rank = 0;     ///< in the run: replica x parts + part
  std::uint32_t replica = 0;  ///< its rank for servers and groups
  std::uint32_t servers = 0;  ///< of the run
  msg::allreduce_actor group;
  std::uint32_t group_number = 0;
  msg::report_actor reports;
  bool remote = false;                    ///< servers and master are in other processes
  caf::timespan timeout = caf::infinite;  ///< timeout of requests to servers and master

  std::uint32_t part() const { return rank % job->parts(); }
  /// The rank of the trainer that leads this replica.
  std::uint32_t leader() const { return rank - part(); }
};

}  // namespace troupe::actors
