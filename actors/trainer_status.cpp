// A trainer's answer to status queries: its phase and what it waits for. A query changes nothing. Handlers run to their
// end before the next message is handled, so a trainer that answers is waiting, idle or about to compute.

#include <fmt/format.h>

#include "actors/trainer.hpp"

namespace troupe::actors {

/// Adds the servers that have not answered a batch's lookup.
void trainer_state::tell_missing_rows(const context& batch, msg::actor_status& now) const {
  for (std::size_t s = 0; s < batch.answers.size(); ++s)
    if (sparse_client::owes(batch, s))
      now.waits.push_back({name, "rows", batch.step, fmt::format("server {}", client_.rank(s))});
}

/// Adds what the current step lacks.
void trainer_state::tell_missing_gradient(msg::actor_status& now) const {
  for (std::uint32_t i = 0; i < replica_->buckets(); ++i)
    if (replica_->is_reducing(i)) now.waits.push_back({name, fmt::format("bucket {}", i), step, "allreduce"});
  for (std::size_t s = 0; s < client_.servers(); ++s)
    if (client_.owes_norm(s))
      now.waits.push_back({name, "the gradient norm", step, fmt::format("server {}", client_.rank(s))});
}

/// Adds its own part's micro-batches, and what they wait for.
void trainer_state::tell_parts(msg::actor_status& now) const {
  const stage_passes& mine = *parts_->passes;
  if (phase_ == trainer_phase::reducing && mine.is_under_way()) {
    now.phase = "passing";
    if (!mine.waits_for_input() && !parts_->slices->is_waiting())
      tell_lacking(mine, rank_, rank_ + job_.tensor_parallel, step, now);
  }
  if (parts_->slices->is_waiting()) tell_missing_shares(*parts_->slices, rank_, step, now);
  if (phase_ == trainer_phase::evaluating && now.waits.empty())
    now.waits.push_back({name, "the outputs", step, fmt::format("trainer {}", rank_ + job_.tensor_parallel)});
  now.queues.push_back(alive_status(mine.place(), job_.micro_batches, mine.alive()));
}

caf::result<msg::actor_status> trainer_state::handle(const msg::actor_query& query) {
  msg::actor_status now{trace.next(step, msg::id_of(query.head)), name, "idle", step, {}, {}};
  if (follower_) {
    follower_->tell(now);
    return now;
  }
  // A trainer that waits for nothing has sent itself a message, after which it continues.
  switch (phase_) {
    case trainer_phase::looking_up:
      if (!ahead_.empty()) {
        now.step = ahead_.front().step;
        tell_missing_rows(ahead_.front(), now);
      }
      now.phase = now.waits.empty() ? "computing" : "looking up";
      break;
    case trainer_phase::reducing:
      tell_missing_gradient(now);
      now.phase = now.waits.empty() ? "computing" : "reducing";
      break;
    case trainer_phase::evaluating:
      tell_missing_rows(tested_, now);
      now.phase = "evaluating";
      break;
    case trainer_phase::saving:
      now.waits.push_back({name, "the checkpoint", step, "master"});
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
  std::uint64_t under_way = 0;
  for (const context& batch : ahead_) under_way += batch.unanswered;
  if (under_way > 0) now.queues.push_back({"lookups under way", under_way, 0, 0});
  return now;
}

}  // namespace troupe::actors
