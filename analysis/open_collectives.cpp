#include "analysis/open_collectives.hpp"

#include <algorithm>

#include "analysis/lookup.hpp"
#include "analysis/training_order.hpp"

namespace troupe::analysis {

open_collectives::open_collectives(const causality& index) {
  std::map<std::uint16_t, std::uint16_t> rank_of;
  for (const trace::actor_state& actor : index.run().actors)
    if (const auto rank = rank_in(actor.name, "trainer")) rank_of[actor.actor] = *rank;
  for (const auto& [actor, rank] : rank_of) ranks_.insert(rank);
  for (const trace::event& one : index.run().events) {
    if (one.what == trace::kind::collective) {
      all_[{one.actor, one.id}].completed = true;
    } else if (one.what == trace::kind::collective_launch) {
      const key which{one.actor, one.cause};
      state& launched = all_[which];
      launched.step = one.step;
      launched.ranks.insert(one.aux);
      if (rank_of.contains(trace::sender_of(one.id))) launched.own.insert(one.aux);
      if (const trace::event* share = index.handled(one.id)) launched.bucket = share->aux;
      by_launch_[one.id] = which;
      ranks_.insert(one.aux);
      place& last = last_[{one.actor, one.aux}];
      last = std::max(last, {one.step, one.cause});
    }
  }
}

std::optional<open_collective> open_collectives::of(std::uint64_t launch) const {
  const key* which = find_in(by_launch_, launch);
  if (which == nullptr) return {};
  const auto& [group, sequence] = *which;
  const state& launched = all_.at(*which);
  if (launched.completed) return {};
  open_collective made{group, sequence, launched.step, launched.bucket, {}, false};
  std::ranges::set_difference(ranks_, launched.ranks, std::inserter(made.missing, made.missing.end()));
  made.skipped = std::ranges::any_of(made.missing, [&](std::uint16_t rank) {
    const place* last = find_in(last_, {made.group, rank});
    return last != nullptr && *last > place{made.step, made.sequence};
  });
  return made;
}

std::optional<std::uint16_t> open_collectives::launched_elsewhere(const open_collective& what,
                                                                  std::uint16_t rank) const {
  for (const auto& [which, launched] : all_)
    if (which.first != what.group && launched.step == what.step && launched.bucket == what.bucket &&
        launched.own.contains(rank))
      return which.first;
  return {};
}

}  // namespace troupe::analysis
