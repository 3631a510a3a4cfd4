#include "trace/analysis/step_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace troupe::analysis {

namespace {

constexpr trace::nanoseconds never = std::numeric_limits<trace::nanoseconds>::max();

path_part idle(std::uint16_t actor) { return {.what = path_category::idle, .actor = actor}; }

path_part work_of(const trace::event& one) {
  if (one.what != trace::kind::range) return {.what = path_category::work, .actor = one.actor, .type = one.type};
  return {.what = path_category::work, .actor = one.actor, .range = range_of(one)};
}

path_part wait_of(std::uint16_t actor, std::uint16_t type) {
  return {.what = path_category::wait, .actor = actor, .type = type};
}

trace::nanoseconds scaled_time(trace::nanoseconds time, bool scale, double factor) {
  return scale ? static_cast<trace::nanoseconds>(std::llround(static_cast<double>(time) * factor)) : time;
}

}  // namespace

std::string what_text(const trace::recording& run, const path_part& what) {
  if (what.what == path_category::on_device)
    return fmt::format("{} on device {}", run.range_text(what.range), what.type);
  if (what.range != trace::range_name::none) return run.range_text(what.range);
  if (what.what == path_category::idle) return "idle";
  if (what.what == path_category::not_running) return "not running";
  const std::string type = what.type == 0 ? "own turn" : run.type_name(what.type);
  return what.what == path_category::wire ? type + " wire" : what.what == path_category::wait ? type + " wait" : type;
}

std::string who_text(const trace::recording& run, const path_part& what) {
  const std::string actor = run.actor_name(what.actor);
  return what.what == path_category::wire ? run.actor_name(what.peer) + " to " + actor : actor;
}

step_graph::step_graph(const causality& of, const step_window& window) : of_(of), window_(window) {
  add_moment(window.begin);
  for (const std::uint16_t actor : of.actors()) add_activities(actor);
  for (actor_part& part : actors_) add_order(part);
  end_ = add_moment(window.end);
  for (const auto& [actor, when] : window.commits) {
    if (when > window.end) continue;
    const node commit = moment_of(actor, when, of.activity_at(actor, when - 1));
    connect(commit, end_, 0, idle(actor), 0);
  }
  for (actor_part& part : actors_)
    for (activity& one : part.activities) add_work(one);
  sort();
}

step_graph::node step_graph::add_moment(trace::nanoseconds when) {
  moments_.push_back({clip(when), 0, origin});
  return static_cast<node>(moments_.size() - 1);
}

void step_graph::connect(node from, node to, trace::nanoseconds time, const path_part& what, std::uint64_t id) {
  const trace::nanoseconds end = moments_[to].when;
  trace::nanoseconds at = end - std::max<trace::nanoseconds>(time, 0);
  node last = from;
  for (const cut& one : cuts_in(what, at, end)) {
    const node begun = add_moment(one.begin);
    const node ended = add_moment(one.end);
    edges_.push_back({last, begun, one.begin - at, what, id, from});
    edges_.push_back({begun, ended, one.end - one.begin, one.what, id, from});
    last = ended;
    at = one.end;
  }
  edges_.push_back({last, to, end - at, what, id, from});
}

/// By begin, without overlaps.
std::vector<step_graph::cut> step_graph::cuts_in(const path_part& what, trace::nanoseconds begin,
                                                 trace::nanoseconds end) const {
  std::vector<cut> all = stalls_in(what, begin, end);
  if (what.range == trace::range_name::device_wait) add_device_work(what.actor, begin, end, all);
  return all;
}

/// Adds the work of the waiting actor's devices in the time that is not covered yet: first their work for this actor,
/// then their work for others of its process, for which its own work may have waited.
void step_graph::add_device_work(std::uint16_t waiting, trace::nanoseconds begin, trace::nanoseconds end,
                                 std::vector<cut>& to) const {
  std::set<std::pair<std::uint32_t, std::uint16_t>> mine;  // process and device
  for (const auto& [lane, spans] : of_.device_lanes())
    if (lane.actor == waiting) mine.emplace(spans.front()->process, lane.device);
  for (const bool own : {true, false}) {
    for (const auto& entry : of_.device_lanes()) {
      const causality::device_lane& lane = entry.first;
      const auto& spans = entry.second;
      if ((lane.actor == waiting) != own || !mine.contains({spans.front()->process, lane.device})) continue;
      std::vector<cut> fresh;
      trace::nanoseconds at = begin;
      const auto add_until = [&](trace::nanoseconds until, trace::range_name what) {
        if (at < until)
          fresh.push_back(
              {at, until, {.what = path_category::on_device, .actor = lane.actor, .type = lane.device, .range = what}});
      };
      auto known = to.begin();
      for (auto one = std::ranges::upper_bound(spans, begin, {}, &trace::event::end);
           one != spans.end() && (*one)->begin < end; ++one) {
        const trace::nanoseconds last = std::min((*one)->end, end);
        for (at = std::max(at, (*one)->begin); known != to.end() && known->begin < last; ++known) {
          add_until(known->begin, range_of(**one));
          at = std::max(at, known->end);
          if (known->end > last) break;
        }
        add_until(last, range_of(**one));
        at = std::max(at, last);
      }
      to.insert(to.end(), fresh.begin(), fresh.end());
      std::ranges::sort(to, {}, &cut::begin);
    }
  }
}

/// By begin, without overlaps: time in which both ends of a wire stalled belongs to the one that stalled first.
std::vector<step_graph::cut> step_graph::stalls_in(const path_part& what, trace::nanoseconds begin,
                                                   trace::nanoseconds end) const {
  std::vector<cut> all;
  const auto add = [&](std::uint16_t actor) {
    const auto activities = of_.activities(actor);
    if (activities.empty()) return;
    const auto stalls = of_.stalls(activities.front()->process);
    for (auto one = std::ranges::upper_bound(stalls, begin, {}, &trace::event::end);
         one != stalls.end() && (*one)->begin < end; ++one)
      all.push_back({std::max((*one)->begin, begin),
                     std::min((*one)->end, end),
                     {.what = path_category::not_running, .actor = actor}});
  };
  if (begin < end) add(what.actor);
  if (begin < end && what.what == path_category::wire) add(what.peer);
  std::ranges::stable_sort(all, {}, &cut::begin);
  trace::nanoseconds at = begin;
  for (cut& one : all) {
    one.begin = std::max(one.begin, at);
    at = std::max(at, one.end);
  }
  std::erase_if(all, [](const cut& one) { return one.begin >= one.end; });
  return all;
}

void step_graph::connect(node from, node to, const path_part& what, std::uint64_t id) {
  connect(from, to, moments_[to].when - moments_[from].when, what, id);
}

void step_graph::add_activities(std::uint16_t actor) {
  const auto all = of_.activities(actor);
  auto at = std::ranges::lower_bound(all, window_.begin, {}, &trace::event::begin);
  if (at != all.begin() && (*std::prev(at))->end > window_.begin) --at;
  actor_part part{actor, static_cast<std::size_t>(at - all.begin()), {}};
  for (; at != all.end() && (*at)->begin <= window_.end; ++at) {
    activity one;
    one.what = *at;
    const auto next = std::next(at);
    one.end_time = next == all.end() ? one.what->end : std::min(one.what->end, (*next)->begin);
    one.begin = add_moment(one.what->begin);
    one.end = add_moment(one.end_time);
    part.activities.push_back(std::move(one));
  }
  if (!part.activities.empty()) actors_.push_back(std::move(part));
}

/// An activity begins when its message has arrived and the previous activity has ended, plus the recorded delay.
void step_graph::add_order(actor_part& part) {
  node last = origin;
  for (activity& one : part.activities) {
    const trace::nanoseconds begin = moments_[one.begin].when;
    if (one.what->what == trace::kind::handled) {
      const trace::nanoseconds possible = std::max(clip(one.what->arrived), moments_[last].when);
      const trace::nanoseconds waited = std::max<trace::nanoseconds>(begin - possible, 0);
      connect(last, one.begin, waited, wait_of(part.actor, one.what->type), one.what->id);
      add_message(*one.what, one.begin, waited);
    } else {  // work that no message requested: possible since the previous activity, if there is one
      connect(last, one.begin, of_.before(*one.what) != nullptr ? wait_of(part.actor, 0) : idle(part.actor));
    }
    last = one.end;
  }
}

void step_graph::add_message(const trace::event& message, node begin, trace::nanoseconds waited) {
  const std::uint16_t sender = trace::sender_of(message.id);
  // Clocks may say otherwise, but a message arrives before it is begun.
  const trace::nanoseconds came = std::min(clip(message.arrived), moments_[begin].when);
  const node sent = message.sent <= window_.begin ? origin : moment_of(sender, message.sent, of_.sent_in(message));
  const node arrival = add_moment(came);
  if (moments_[sent].when <= came) {
    connect(sent, arrival, {.what = path_category::wire, .actor = message.actor, .peer = sender, .type = message.type},
            message.id);
  } else {
    connect(origin, arrival, idle(sender));
  }
  connect(arrival, begin, waited, wait_of(message.actor, message.type), message.id);
  moments_[begin].begins = message.id;
  moments_[begin].arrival = arrival;
}

step_graph::activity* step_graph::find(const trace::event* one) {
  if (one == nullptr) return nullptr;
  const auto part = std::ranges::lower_bound(actors_, one->actor, {}, &actor_part::actor);
  if (part == actors_.end() || part->actor != one->actor) return nullptr;
  const std::size_t index = of_.index_of(*one);
  const bool inside = index >= part->first && index - part->first < part->activities.size();
  return inside ? &part->activities[index - part->first] : nullptr;
}

step_graph::node step_graph::moment_of(std::uint16_t actor, trace::nanoseconds when, const trace::event* at) {
  activity* within = find(at != nullptr ? at : of_.activity_at(actor, when));
  if (within != nullptr && when <= within->end_time) {
    const node here = add_moment(std::max(when, within->what->begin));
    within->between.push_back(here);
    return here;
  }
  const node here = add_moment(when);
  connect(within == nullptr ? origin : within->end, here, idle(actor));
  return here;
}

/// The innermost range at that moment, else the activity itself.
path_part step_graph::work_at(const trace::event& one, trace::nanoseconds when) const {
  const trace::event* innermost = &one;
  for (const trace::event* range : of_.ranges_in(one))
    if (range->begin <= when && when < range->end) innermost = range;
  return work_of(*innermost);
}

void step_graph::add_work(activity& one) {
  for (const trace::event* range : of_.ranges_in(*one.what))
    for (const trace::nanoseconds border : {range->begin, range->end})
      if (border > moments_[one.begin].when && border < one.end_time) one.between.push_back(add_moment(border));
  std::ranges::sort(one.between, {}, [&](node at) { return std::pair(moments_[at].when, at); });
  one.between.push_back(one.end);
  const std::uint64_t id = one.what->what == trace::kind::handled ? one.what->id : 0;
  node last = one.begin;
  for (const node next : one.between) {
    connect(last, next, work_at(*one.what, moments_[last].when), id);
    last = next;
  }
}

/// Finds an order in which every moment comes after all moments that it depends on: depth first, from the end. Cuts
/// cycles, which contradictory records could form.
void step_graph::sort() {
  std::ranges::stable_sort(edges_, {}, &edge::to);
  into_.assign(moments_.size() + 1, 0);
  for (const edge& one : edges_) ++into_[one.to + 1];
  for (std::size_t i = 1; i < into_.size(); ++i) into_[i] += into_[i - 1];
  enum state : std::uint8_t { unseen, open, done };
  std::vector<state> states(moments_.size(), unseen);
  std::vector<std::pair<node, std::uint32_t>> path = {{end_, into_[end_]}};
  states[end_] = open;
  while (!path.empty()) {
    auto& [here, next] = path.back();
    if (next == into_[here + 1]) {
      states[here] = done;
      order_.push_back(here);
      path.pop_back();
      continue;
    }
    edge& one = edges_[next++];
    if (states[one.from] == open)
      one = {origin, one.to, moments_[one.to].when - window_.begin, idle(one.what.actor), 0, origin};
    if (states[one.from] != unseen) continue;
    states[one.from] = open;
    path.emplace_back(one.from, into_[one.from]);
  }
}

std::vector<trace::nanoseconds> step_graph::earliest(const std::optional<path_part>& scaled, double factor) const {
  std::vector<trace::nanoseconds> at(moments_.size(), 0);
  for (const node here : order_) {
    for (std::uint32_t i = into_[here]; i < into_[here + 1]; ++i) {
      const edge& one = edges_[i];
      at[here] = std::max(at[here], at[one.from] + scaled_time(one.time, scaled == one.what, factor));
    }
  }
  return at;
}

std::vector<trace::nanoseconds> step_graph::latest(const std::vector<trace::nanoseconds>& earliest) const {
  std::vector<trace::nanoseconds> at(moments_.size(), never);
  at[end_] = earliest[end_];
  for (std::size_t place = order_.size(); place-- > 0;) {
    const auto here = order_[place];
    for (std::uint32_t i = into_[here]; i < into_[here + 1]; ++i) {
      const edge& one = edges_[i];
      at[one.from] = std::min(at[one.from], at[here] - one.time);
    }
  }
  return at;
}

std::vector<path_segment> step_graph::longest_path(const std::optional<path_part>& scaled, double factor) const {
  const std::vector<trace::nanoseconds> at = earliest(scaled, factor);
  std::vector<path_segment> path;
  // The messages in the queue of the actor that the path is at, with their arrivals.
  std::vector<std::pair<trace::nanoseconds, std::uint64_t>> queue;
  for (node here = end_; here != origin;) {
    const edge* binding = nullptr;
    for (std::uint32_t i = into_[here]; i < into_[here + 1]; ++i) {
      const edge& one = edges_[i];
      // The last of several wins: a message rather than the previous activity.
      if (at[one.from] + scaled_time(one.time, scaled == one.what, factor) == at[here]) binding = &one;
    }
    if (binding == nullptr) break;  // never: the maximum in `earliest` is from one of them
    const moment& now = moments_[here];
    if (now.arrival != origin && binding->source == now.arrival) queue.clear();
    if (now.arrival != origin && binding->source != now.arrival) queue.emplace_back(at[now.arrival], now.begins);
    trace::nanoseconds end = at[here];
    while (end > at[binding->from]) {
      trace::nanoseconds begin = at[binding->from];
      std::uint64_t waiting = 0;
      if (binding->what.what == path_category::work || binding->what.what == path_category::on_device) {
        for (std::size_t place = queue.size(); place-- > 0;) {
          if (queue[place].first < end) {
            waiting = queue[place].second;
            begin = std::max(at[binding->from], queue[place].first);
          }
        }
      }
      const path_segment here_on{binding->what, window_.begin + begin, window_.begin + end, binding->id, waiting};
      const bool same = !path.empty() && path.back().what == here_on.what && path.back().id == here_on.id &&
                        path.back().queued == here_on.queued;
      same ? void(path.back().begin = here_on.begin) : path.push_back(here_on);
      end = begin;
    }
    here = binding->from;
  }
  std::ranges::reverse(path);
  return path;
}

std::map<std::uint16_t, step_graph::slack_of_actor> step_graph::slack() const {
  const std::vector<trace::nanoseconds> early = earliest({}, 1);
  const std::vector<trace::nanoseconds> late = latest(early);
  const auto time_of = [&](const trace::event& work) {
    return std::max<trace::nanoseconds>(std::min(work.end, window_.end) - clip(work.begin), 0);
  };
  std::map<std::uint16_t, slack_of_actor> all;
  for (const actor_part& part : actors_) {
    slack_of_actor& sum = all[part.actor];
    for (const activity& one : part.activities) {
      const trace::event* work = one.what;
      sum.working += time_of(*work);
      for (const trace::event* range : of_.ranges_in(*one.what)) {  // the range that most of the activity was spent in
        const trace::nanoseconds least = work == one.what ? time_of(*work) / 2 : time_of(*work);
        if (time_of(*range) > least) work = range;
      }
      if (time_of(*work) < sum.longest_time) continue;
      sum.longest = work_of(*work);
      sum.longest_time = time_of(*work);
      sum.slack = late[one.begin] == never ? std::nullopt : std::optional(late[one.begin] - early[one.begin]);
    }
  }
  return all;
}

}  // namespace troupe::analysis
