#include "trace/analysis/summary.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/mapped.hpp"
#include "trace/record/names.hpp"

namespace troupe::analysis {

namespace {

/// The events that begin at `when` or later.
auto begun_since(const trace::recording& run, trace::nanoseconds when) {
  return boost::make_iterator_range(std::ranges::lower_bound(run.events, when, {}, &trace::event::begin),
                                    run.events.end());
}

std::vector<lost_message> find_lost(const causality& of) {
  const trace::recording& run = of.run();
  std::set<std::uint64_t> dropped;
  std::vector<lost_message> lost;
  for (const trace::event& one : run.events | of_kind(trace::kind::drop)) {
    dropped.insert(one.id);
    lost.push_back({one.id, one.type, one.actor, one.begin,
                    std::string(trace::name_of(static_cast<trace::drop_reason>(one.aux)))});
  }
  for (const trace::event& one : run.events | of_kind(trace::kind::sent)) {
    if (of.handled(one.id) != nullptr || dropped.contains(one.id)) continue;
    const trace::actor_state* receiver = run.find_actor(one.aux);
    if (receiver == nullptr || receiver->alive) continue;
    const trace::process_info& process = run.processes[receiver->process];
    if (process.filtered || one.begin < process.complete_from) continue;  // the handling may not be recorded
    lost.push_back({one.id, one.type, one.aux, one.begin, receiver->name + " had ended"});
  }
  std::ranges::stable_sort(lost, {}, &lost_message::when);
  return lost;
}

/// The requests that are open on the board, and those that were parked and never released and whose sender has no entry
/// on the board.
std::vector<trace::actor_state::request> find_unanswered(const trace::recording& run) {
  std::vector<trace::actor_state::request> open;
  for (const trace::actor_state& actor : run.actors) open.insert(open.end(), actor.open.begin(), actor.open.end());
  std::set<std::uint64_t> answered;
  for (const trace::event& one : run.events)
    if (one.has(flag::answer)) answered.insert(one.cause);
  for (const trace::event& one : run.events | of_kind(trace::kind::handled)) {
    if (!one.has(flag::parked) || answered.contains(one.id) || run.find_actor(trace::sender_of(one.id)) != nullptr)
      continue;
    // It is not recorded whether a client has received its answer.
    if (trace::sender_of(one.id) == trace::client_actor && run.processes[one.process].end == trace::ending::clean)
      continue;
    open.push_back({one.id, one.type, one.actor, one.step, one.sent});
  }
  std::ranges::stable_sort(open, {}, &trace::actor_state::request::since);
  return open;
}

std::vector<stall_summary> summarize_stalls(const causality& of) {
  std::vector<stall_summary> all;
  for (std::uint32_t process = 0; process < of.run().processes.size(); ++process) {
    stall_summary sum{process, 0, 0, 0};
    for (const trace::event* one : of.stalls(process)) {
      ++sum.times;
      sum.sum += one->end - one->begin;
      sum.longest = std::max(sum.longest, one->end - one->begin);
    }
    if (sum.times > 0) all.push_back(sum);
  }
  return all;
}

}  // namespace

std::vector<actor_summary> summarize_actors(const trace::recording& run, trace::nanoseconds since) {
  struct running {
    actor_summary sum;
    trace::nanoseconds busy_until = always;
  };
  std::map<std::uint16_t, running> all;
  for (const trace::event& one :
       begun_since(run, since) | of_kind(trace::kind::handled, trace::kind::range, trace::kind::timer)) {
    auto& [sum, busy_until] = all[one.actor];
    sum.actor = one.actor;
    // A range may be part of a message's handling, or not.
    sum.working += std::max<trace::nanoseconds>(one.end - std::max(one.begin, busy_until), 0);
    busy_until = std::max(busy_until, one.end);
    if (one.what != trace::kind::handled) continue;
    ++sum.handled;
    sum.queued += one.begin - one.arrived;
    const trace::nanoseconds worked = one.end - one.begin;
    if (sum.longest != 0 && worked <= sum.longest_time) continue;
    sum.longest = one.id;
    sum.longest_time = worked;
  }
  return mapped(all, [](const auto& one) { return one.second.sum; });
}

std::vector<edge_summary> summarize_edges(const trace::recording& run, trace::nanoseconds since) {
  std::unordered_map<std::uint64_t, edge_summary> edges;
  for (const trace::event& one : begun_since(run, since) | of_kind(trace::kind::handled)) {
    const std::uint16_t sender = trace::sender_of(one.id);
    edge_summary& edge = edges[std::uint64_t{sender} << 32 | std::uint64_t{one.actor} << 16 | one.type];
    edge.sender = sender;
    edge.receiver = one.actor;
    edge.type = one.type;
    ++edge.messages;
    edge.bytes += one.bytes;
    edge.wire += std::max<trace::nanoseconds>(one.arrived - one.sent, 0);  // clocks may differ a little
    edge.queued += one.begin - one.arrived;
    edge.worked += one.end - one.begin;
    edge.latency += one.end - one.sent;
    edge.longest = std::max(edge.longest, one.end - one.sent);
  }
  auto all = mapped(edges, [](const auto& one) { return one.second; });
  std::ranges::sort(all, {}, [](const edge_summary& e) {
    return std::tuple(~e.bytes, ~e.messages, e.sender, e.receiver, e.type);  // most bytes first
  });
  return all;
}

summary summarize(const causality& of) {
  const trace::recording& run = of.run();
  summary all;
  all.begin = run.events.empty() ? 0 : run.events.front().begin;
  all.end = run.end();
  for (const trace::event& one : run.events) {
    all.end = std::max(all.end, one.end);
    if (one.what != trace::kind::handled) continue;
    ++all.messages;
    all.bytes += one.bytes;
  }
  all.actors = summarize_actors(run);
  all.edges = summarize_edges(run);
  all.stalls = summarize_stalls(of);
  all.devices = find_device_use(of);
  all.pipeline = find_pipeline_use(of.run());
  all.steps = find_steps(run);
  all.lost = find_lost(of);
  all.unanswered = find_unanswered(run);
  return all;
}

}  // namespace troupe::analysis
