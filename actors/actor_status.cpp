// What the actors of a run say when they are asked how they are: in which phase, and for what they wait. Asking changes
// nothing of theirs. A handler runs to its end before the next message is looked at, so whoever answers either waits
// for something, has nothing to do, or is about to compute.

#include <fmt/format.h>

#include <algorithm>

#include "actors/allreduce_group.hpp"
#include "actors/node_actor.hpp"
#include "actors/parameter_server.hpp"
#include "actors/trainer.hpp"
#include "protocol/inspect.hpp"

namespace troupe {

// -- trainer --------------------------------------------------------------------

/// The servers that have not answered a batch's lookup.
void trainer_state::tell_missing_rows(const context& batch, actor_status& now) const {
  for (std::size_t s = 0; s < batch.answers.size(); ++s)
    if (batch.unanswered > 0 && batch.answers[s].head.sequence == 0)
      now.waits.push_back({name, "rows", batch.step, fmt::format("server {}", exchange_.rank(s))});
}

/// What the step under way still lacks.
void trainer_state::tell_missing_gradient(actor_status& now) const {
  for (std::size_t i = 0; i < buckets_.size(); ++i)
    if (buckets_[i].is_sent) now.waits.push_back({name, fmt::format("bucket {}", i), step, "allreduce"});
  for (std::size_t s = 0; s < norm_missing_.size(); ++s)
    if (norm_missing_[s])
      now.waits.push_back({name, "the gradient norm", step, fmt::format("server {}", exchange_.rank(s))});
}

caf::result<actor_status> trainer_state::handle(const actor_query& query) {
  actor_status now{headers_.next(step, id_of(query.head)), name, "idle", step, {}, {}};
  if (!data_) return now;
  // Without anything to wait for, a message to itself is on its way, after which it goes on.
  switch (phase_) {
    case phase::looking_up:
      if (!ahead_.empty()) {
        now.step = ahead_.front().step;
        tell_missing_rows(ahead_.front(), now);
      }
      now.phase = now.waits.empty() ? "computing" : "looking up";
      break;
    case phase::reducing:
      tell_missing_gradient(now);
      now.phase = now.waits.empty() ? "computing" : "reducing";
      break;
    case phase::evaluating:
      tell_missing_rows(tested_, now);
      now.phase = "evaluating";
      break;
    case phase::saving:
      now.waits.push_back({name, "the checkpoint", step, "master"});
      now.phase = "saving";
      break;
    case phase::done:
      now.phase = "done";
      break;
  }
  std::uint64_t under_way = 0;
  for (const context& batch : ahead_) under_way += batch.unanswered;
  if (under_way > 0) now.queues.push_back({"lookups under way", under_way, 0, 0});
  return now;
}

// -- parameter server -------------------------------------------------------------

/// What keeps the optimizer step `update` from being complete: gradients, or when all of them are here, the word what
/// to do with them.
void parameter_server_state::tell_missing(std::uint64_t update, actor_status& now) const {
  const context& open = contexts_[update % contexts_.size()];
  const auto is_here = [this](const contribution& one) {
    return one.complete || one.wants_norm || one.parts.size() >= accumulate_;
  };
  const bool all_here = std::ranges::all_of(open.ranks, is_here);
  for (std::uint32_t rank = 0; rank < open.ranks.size(); ++rank) {
    const contribution& theirs = open.ranks[rank];
    const std::uint64_t newest = (update - 1) * accumulate_ + theirs.parts.size();
    if (!is_here(theirs))
      now.waits.push_back({name, "gradients", newest + 1, fmt::format("trainer {}", rank)});
    else if (all_here && !theirs.complete)
      now.waits.push_back({name, "the optimizer step", newest, fmt::format("trainer {}", rank)});
  }
}

/// Where trainers have no step in common: whose optimizer steps others wait for.
void parameter_server_state::tell_missing_async(actor_status& now) const {
  std::uint64_t needed = 0;
  for (const parked_lookup& one : parked_) needed = std::max(needed, update_of(one.wanted.head.step) - 1);
  for (const parked_query& one : parked_queries_) needed = std::max(needed, one.updates);
  for (std::uint32_t rank = 0; rank < last_update_.size(); ++rank)
    if (last_update_[rank] < needed)
      now.waits.push_back({name, "gradients",
                           last_update_[rank] * accumulate_ + contexts_[0].ranks[rank].parts.size() + 1,
                           fmt::format("trainer {}", rank)});
}

caf::result<actor_status> parameter_server_state::handle(const actor_query& query) {
  actor_status now{headers_.next(step, id_of(query.head)), name, "idle", step, {}, {}};
  if (trainers_ == 0) return now;
  if (is_async()) {
    tell_missing_async(now);
  } else {
    const context& next = contexts_[(committed_ + 1) % contexts_.size()];
    const bool is_begun = std::ranges::any_of(
        next.ranks, [](const contribution& one) { return one.complete || one.wants_norm || !one.parts.empty(); });
    if (is_begun || !parked_.empty() || !parked_queries_.empty()) tell_missing(committed_ + 1, now);
  }
  if (!now.waits.empty()) now.phase = "waiting";
  std::map<std::uint32_t, std::uint64_t> parked;  // by sender
  for (const parked_lookup& one : parked_) ++parked[one.wanted.head.sender];
  for (const auto& [sender, count] : parked) now.queues.push_back({"lookups parked", count, 0, sender});
  if (!parked_queries_.empty()) now.queues.push_back({"questions parked", parked_queries_.size(), 0, 0});
  return now;
}

// -- allreduce group --------------------------------------------------------------

caf::result<actor_status> allreduce_group_state::handle(const actor_query& query) {
  actor_status now{headers_.next(step, id_of(query.head)), name, open_.empty() ? "idle" : "waiting", step, {}, {}};
  for (const auto& [which, all] : open_) {
    const std::string what = fmt::format("bucket {}", which.second);
    for (std::uint32_t rank = 0; rank < trainers(); ++rank) {
      const bool owes_sum = all.arrived == trainers() && !is_local(rank) && !all.summed[layout_.process_of_rank[rank]];
      if (!all.ranks[rank].arrived || owes_sum)
        now.waits.push_back({name, what, which.first, fmt::format("trainer {}", rank)});
    }
  }
  return now;
}

// -- node -------------------------------------------------------------------------

caf::result<actor_status> node_state::handle(const actor_query& query) {
  actor_status now{headers_.next(step, id_of(query.head)), name, {}, all_.data->newest_step(), {}, {}};
  for (const peer_node& peer : peers_) {
    const data_link_ptr wire = all_.data->link_to(peer.node);
    if (!wire) continue;
    const queue_status queue{peer.name, wire->waiting_for_credit(), wire->queued_bytes(), 0};
    if (queue.messages > 0 || queue.bytes > 0) now.queues.push_back(queue);
  }
  return now;
}

}  // namespace troupe
