// A parameter server's answer to status queries: its phase and what it waits for. A query changes nothing. A handler
// ends before the next message is handled, so a server that answers is waiting or idle.

#include <fmt/format.h>

#include <algorithm>

#include "actors/server/parameter_server.hpp"

namespace troupe::actors {

std::string parameter_server_state::trainer_name(std::uint32_t rank) const {
  return fmt::format("trainer {}", rank * origins_.parts);
}

/// Adds what optimizer step `update` lacks: gradients, or if all have arrived, the order to apply them.
void parameter_server_state::report_missing(std::uint64_t update, msg::actor_status& now) const {
  const step_context& open = contexts_.of(update);
  const auto is_here = [this](const contribution& one) {
    return one.complete || one.wants_norm || one.parts.size() >= contexts_.by().accumulate;
  };
  const bool all_here = std::ranges::all_of(open.ranks, is_here);
  for (std::uint32_t rank = 0; rank < open.ranks.size(); ++rank) {
    const contribution& theirs = open.ranks[rank];
    const std::uint64_t newest = (update - 1) * contexts_.by().accumulate + theirs.parts.size();
    if (!is_here(theirs))
      now.waits.push_back({name, "gradients", newest + 1, trainer_name(rank)});
    else if (all_here && !theirs.complete)
      now.waits.push_back({name, "the optimizer step", newest, trainer_name(rank)});
  }
}

/// Consistency async: adds the trainers whose optimizer steps are awaited by lookups, calls and queries.
void parameter_server_state::report_missing_async(msg::actor_status& now) const {
  std::uint64_t needed = 0;
  for (const parked_lookup& one : parked_.lookups)
    needed = std::max(needed, contexts_.update_of(one.wanted.head.step) - 1);
  for (const parked_call& one : parked_.calls) needed = std::max(needed, contexts_.update_of(one.what.head.step) - 1);
  for (const parked_query& one : parked_.queries) needed = std::max(needed, one.updates);
  const std::vector<std::uint64_t>& last = contexts_.last_of_ranks();
  for (std::uint32_t rank = 0; rank < last.size(); ++rank)
    if (last[rank] < needed)
      now.waits.push_back({name, "gradients",
                           last[rank] * contexts_.by().accumulate + contexts_.of(0).ranks[rank].parts.size() + 1,
                           trainer_name(rank)});
}

caf::result<msg::actor_status> parameter_server_state::handle(const msg::actor_query& query) {
  msg::actor_status now{trace.next(step, msg::id_of(query.head)), name, "idle", step, {}, {}};
  if (!contexts_.have_begun()) return now;
  if (contexts_.is_async()) {
    report_missing_async(now);
  } else {
    const step_context& next = contexts_.next();
    if (phase_ == update_phase::held_up)
      now.waits.push_back({name, "the checkpoint", checkpoint_.update().value_or(0) * contexts_.by().accumulate, name});
    const bool is_begun = std::ranges::any_of(
        next.ranks, [](const contribution& one) { return one.complete || one.wants_norm || !one.parts.empty(); });
    if (is_begun || !parked_.empty()) report_missing(contexts_.committed() + 1, now);
  }
  if (!now.waits.empty()) now.phase = "waiting";
  std::map<std::uint32_t, std::uint64_t> parked;  // by sender
  for (const parked_lookup& one : parked_.lookups) ++parked[one.wanted.head.sender];
  for (const auto& [sender, count] : parked) now.queues.push_back({"lookups parked", count, 0, sender});
  if (!parked_.calls.empty()) now.queues.push_back({"calls parked", parked_.calls.size(), 0, 0});
  if (!parked_.queries.empty()) now.queues.push_back({"questions parked", parked_.queries.size(), 0, 0});
  return now;
}

}  // namespace troupe::actors
