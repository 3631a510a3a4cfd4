// A trainer's answer to status queries: its phase and what it waits for. A query changes nothing. A handler ends before
// the next message is handled, so a trainer that answers is waiting, idle or about to compute.

#include <fmt/format.h>

#include "actors/trainer/training_loop.hpp"

namespace troupe::actors {

/// Adds the servers that have not answered a batch's lookup.
void training_loop::report_missing_rows(const context& batch, msg::actor_status& now) const {
  for (std::size_t s = 0; s < batch.answers.size(); ++s)
    if (sparse_client::owes(batch, s))
      now.waits.push_back({now.name, "rows", batch.step, fmt::format("server {}", work_.client.rank(s))});
}

/// Adds the means and norms that the current step lacks.
void training_loop::report_missing_gradient(msg::actor_status& now) const {
  for (std::uint32_t i = 0; i < work_.replica->buckets(); ++i)
    if (work_.replica->is_reducing(i)) now.waits.push_back({now.name, fmt::format("bucket {}", i), step_, "allreduce"});
  for (std::size_t s = 0; s < work_.client.servers(); ++s)
    if (work_.client.owes_norm(s))
      now.waits.push_back({now.name, "the gradient norm", step_, fmt::format("server {}", work_.client.rank(s))});
}

void training_loop::report(msg::actor_status& now) const {
  // A trainer that waits for nothing has sent itself a message, after which it continues.
  switch (work_.phase) {
    case trainer_phase::looking_up:
      if (!work_.coming->empty()) {
        now.step = work_.coming->first().step;
        report_missing_rows(work_.coming->first(), now);
      }
      now.phase = now.waits.empty() ? "computing" : "looking up";
      break;
    case trainer_phase::reducing:
      report_missing_gradient(now);
      now.phase = now.waits.empty() ? "computing" : "reducing";
      break;
    case trainer_phase::evaluating:
      report_missing_rows(work_.evaluation.rows(), now);
      now.phase = "evaluating";
      break;
    case trainer_phase::saving:
      now.waits.push_back({now.name, "the checkpoint", step_, "master"});
      now.phase = "saving";
      break;
    case trainer_phase::done:
      now.phase = "done";
      break;
    case trainer_phase::idle:
    case trainer_phase::failed:
      break;
  }
  body_->report(now);
  if (const std::uint64_t under_way = work_.coming->unanswered(); under_way > 0)
    now.queues.push_back({"lookups under way", under_way, 0, 0});
}

}  // namespace troupe::actors
