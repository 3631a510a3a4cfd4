#include "actors/trainer_assignment.hpp"

#include <chrono>
#include <utility>

#include "actors/failure.hpp"

namespace troupe::actors {

std::uint64_t total_steps(const model::job& what, const model::dataset& data) {
  return what.steps ? *what.steps : data.epochs().steps_until(what.epochs);
}

caf::expected<trainer_assignment> assignment_of(const msg::train& order, std::uint32_t rank, std::uint32_t servers) {
  auto job = model::parse_job(order.job);
  if (!job) return make_failure(errc::bad_input, job.error().message);
  const msg::blob row_index = order.row_index.empty() ? msg::blob() : order.row_index.front();
  auto data = model::open_dataset(*job, row_index.as<std::uint64_t>());
  if (!data) return make_failure(errc::bad_input, data.error().message);
  if ((*data)->digest() != order.data_digest)
    return make_failure(errc::bad_input,
                        "--data {}: the rows here are not the master's: their digest is {} here and {} there",
                        job->data, (*data)->digest(), order.data_digest);
  const std::uint32_t replica = rank / job->parts();
  trainer_assignment made{.job = std::move(*job),
                          .data = std::move(*data),
                          .rank = rank,
                          .replica = replica,
                          .servers = servers,
                          .group = order.group,
                          .group_number = order.group_number,
                          .reports = order.reports,
                          .remote = order.remote};
  if (order.remote) made.timeout = std::chrono::milliseconds(order.request_timeout_ms);
  return made;
}

}  // namespace troupe::actors
