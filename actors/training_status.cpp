// A trainer's answer to status queries: its phase and what it waits for. A query changes nothing. Handlers run to their
// end before the next message is handled, so a trainer that answers is waiting, idle or about to compute.

#include <fmt/format.h>

#include "actors/training_loop.hpp"

namespace troupe::actors {

/// Adds the servers that have not answered a batch's lookup.
void training_loop::tell_missing_rows(const context& batch, msg::actor_status& now) const {
  for (std::size_t s = 0; s < batch.answers.size(); ++s)
    if (sparse_client::owes(batch, s))
      now.waits.push_back({now.name, "rows", batch.step, fmt::format("server {}", client_.rank(s))});
}

/// Adds what the current step lacks.
void training_loop::tell_missing_gradient(msg::actor_status& now) const {
  for (std::uint32_t i = 0; i < replica_->buckets(); ++i)
    if (replica_->is_reducing(i)) now.waits.push_back({now.name, fmt::format("bucket {}", i), step_, "allreduce"});
  for (std::size_t s = 0; s < client_.servers(); ++s)
    if (client_.owes_norm(s))
      now.waits.push_back({now.name, "the gradient norm", step_, fmt::format("server {}", client_.rank(s))});
}

/// Adds its own part's micro-batches, and what they wait for.
void training_loop::tell_parts(msg::actor_status& now) const {
  const stage_passes& mine = *parts_->passes;
  const bool waits_for_slices = parts_->slices->is_waiting();
  if (phase_ == trainer_phase::reducing && !mine.order().is_through()) {
    now.phase = "passing";
    if (!mine.order().is_forward_next() && !waits_for_slices) mine.tell_lacking(step_, now);
  }
  if (waits_for_slices) parts_->slices->tell_missing(step_, now);
  if (phase_ == trainer_phase::evaluating && now.waits.empty())
    now.waits.push_back(
        {now.name, "the outputs", step_, fmt::format("trainer {}", assigned_.rank + job().tensor_parallel)});
  mine.tell_alive(job().micro_batches, now);
}

void training_loop::tell(msg::actor_status& now) const {
  // A trainer that waits for nothing has sent itself a message, after which it continues.
  switch (phase_) {
    case trainer_phase::looking_up:
      if (!coming_->empty()) {
        now.step = coming_->first().step;
        tell_missing_rows(coming_->first(), now);
      }
      now.phase = now.waits.empty() ? "computing" : "looking up";
      break;
    case trainer_phase::reducing:
      tell_missing_gradient(now);
      now.phase = now.waits.empty() ? "computing" : "reducing";
      break;
    case trainer_phase::evaluating:
      tell_missing_rows(tested_.current, now);
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
  if (parts_) tell_parts(now);
  if (const std::uint64_t under_way = coming_->unanswered(); under_way > 0)
    now.queues.push_back({"lookups under way", under_way, 0, 0});
}

}  // namespace troupe::actors
