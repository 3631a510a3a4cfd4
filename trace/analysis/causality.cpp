#include "trace/analysis/causality.hpp"

#include <algorithm>

namespace troupe::analysis {

namespace {

constexpr std::size_t actors_max = std::size_t{1} << 16;

bool holds(const trace::event& activity, trace::nanoseconds when) {
  return activity.begin <= when && when <= activity.end;
}

/// Whether the range `inner`, which did not begin before `outer`, lies in it.
bool lies_in(const trace::event& inner, const trace::event& outer) {
  return inner.begin < outer.end || (inner.begin == outer.end && inner.end == outer.end);
}

}  // namespace

causality::causality(const trace::recording& of) : run_(&of), slot_(actors_max) {
  for (const trace::event& one : of.events) {
    index* const by_id = one.what == trace::kind::handled    ? &handled_
                         : one.what == trace::kind::sent     ? &sent_
                         : one.what == trace::kind::arrived  ? &arrived_
                         : one.what == trace::kind::released ? &released_
                                                             : nullptr;
    if (by_id != nullptr) by_id->emplace_back(one.id, &one);
    if (by_id == &handled_ || one.what == trace::kind::range || one.what == trace::kind::timer) add_activity(one);
    if (one.what == trace::kind::device_range)
      device_lanes_[{one.actor, one.aux, range_of(one) == trace::range_name::copy}].push_back(&one);
    if (one.what != trace::kind::stalled) continue;
    if (stalls_.size() <= one.process) stalls_.resize(one.process + std::size_t{1});
    stalls_[one.process].push_back(&one);
  }
  const auto order = [](index& by_id) { std::ranges::stable_sort(by_id, {}, &index::value_type::first); };
  for (index* by_id : {&handled_, &sent_, &arrived_, &released_}) order(*by_id);
  for (const trace::event& one : of.events | of_kind(trace::kind::handled))
    if (const std::uint64_t because = trigger(one)) effects_.emplace_back(because, &one);
  order(effects_);
  for (actor_events& all : by_actor_)
    std::ranges::sort(all.ranges, {}, [](const trace::event* range) { return std::pair(range->begin, -range->end); });
  std::ranges::sort(acting_);
}

/// Events come by begin. A range may come before the activity that it lies in if both begin at the same time.
void causality::add_activity(const trace::event& one) {
  std::uint32_t& slot = slot_[one.actor];
  if (slot == 0) {
    acting_.push_back(one.actor);
    by_actor_.emplace_back();
    slot = static_cast<std::uint32_t>(by_actor_.size());
  }
  auto& [activities, ranges] = by_actor_[slot - 1];
  const auto within_one = [&](const trace::event& last) {
    return last.what == trace::kind::range && last.begin == one.begin && last.end > last.begin && last.end <= one.end;
  };
  while (!activities.empty() && within_one(*activities.back())) {
    ranges.push_back(activities.back());
    activities.pop_back();
  }
  const bool nested = one.what == trace::kind::range && !activities.empty() && lies_in(one, *activities.back());
  (nested ? ranges : activities).push_back(&one);
}

const trace::event* causality::find(const index& by_id, std::uint64_t id) {
  const auto at = std::ranges::lower_bound(by_id, id, {}, &index::value_type::first);
  return at != by_id.end() && at->first == id ? at->second : nullptr;
}

const causality::actor_events* causality::of(std::uint16_t actor) const {
  return slot_[actor] == 0 ? nullptr : &by_actor_[slot_[actor] - 1];
}

std::span<const trace::event* const> causality::activities(std::uint16_t actor) const {
  const actor_events* known = of(actor);
  return known == nullptr ? std::span<const trace::event* const>{} : std::span(known->activities);
}

std::span<const trace::event* const> causality::stalls(std::uint32_t process) const {
  return process < stalls_.size() ? std::span(stalls_[process]) : std::span<const trace::event* const>{};
}

std::span<const trace::event* const> causality::ranges_in(const trace::event& activity) const {
  const actor_events* known = of(activity.actor);
  if (known == nullptr) return {};
  const auto begin = std::ranges::lower_bound(known->ranges, activity.begin, {}, &trace::event::begin);
  auto end = begin;
  while (end != known->ranges.end() && lies_in(**end, activity)) ++end;
  return {begin, end};
}

std::uint64_t causality::trigger(const trace::event& message) const {
  const trace::event* release = find(released_, message.id);
  return release != nullptr ? release->cause : message.cause;
}

std::vector<const trace::event*> causality::effects(std::uint64_t id) const {
  std::vector<const trace::event*> all;
  auto at = std::ranges::lower_bound(effects_, id, {}, &index::value_type::first);
  for (; at != effects_.end() && at->first == id; ++at) all.push_back(at->second);
  return all;
}

const trace::event* causality::sent_in(const trace::event& message) const {
  const std::uint16_t sender = trace::sender_of(message.id);
  const trace::event* because = handled(trigger(message));
  if (because != nullptr && because->actor != sender) because = nullptr;
  // An actor may send it later, in a turn of its own.
  if (because != nullptr && holds(*because, message.sent)) return because;
  const trace::event* current = activity_at(sender, message.sent);
  return current != nullptr && holds(*current, message.sent) ? current : because;
}

const trace::event* causality::activity_at(std::uint16_t actor, trace::nanoseconds when) const {
  const auto all = activities(actor);
  const auto after = std::ranges::upper_bound(all, when, {}, &trace::event::begin);
  return after == all.begin() ? nullptr : *std::prev(after);
}

std::size_t causality::index_of(const trace::event& activity) const {
  const auto all = activities(activity.actor);
  auto at = std::ranges::lower_bound(all, activity.begin, {}, &trace::event::begin);
  while (at != all.end() && *at != &activity) ++at;
  return static_cast<std::size_t>(at - all.begin());
}

const trace::event* causality::before(const trace::event& activity) const {
  const std::size_t at = index_of(activity);
  const auto all = activities(activity.actor);
  return at == 0 || at == all.size() ? nullptr : all[at - 1];
}

}  // namespace troupe::analysis
