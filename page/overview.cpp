#include "page/overview.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/json/array.hpp>
#include <map>
#include <set>
#include <utility>

#include "page/export.hpp"
#include "page/message_list.hpp"
#include "page/steps.hpp"
#include "trace/names.hpp"

namespace troupe::page {

namespace {

using trace::event;
using trace::kind;
using trace::nanoseconds;

std::string ending_of(const trace::process_info& one, bool live) {
  switch (one.end) {
    case trace::ending::clean:
      return "clean";
    case trace::ending::failed:
      return "failed";
    case trace::ending::none:
      break;
  }
  return live ? "running" : "gone";
}

boost::json::array processes_json(const reading& of) {
  boost::json::array all;
  for (const trace::process_info& one : of.what->processes)
    all.push_back(boost::json::object{{"host", one.host},
                                      {"pid", one.pid},
                                      {"node", one.node},
                                      {"state", ending_of(one, of.live)},
                                      {"records", one.records},
                                      {"overwritten", one.overwritten},
                                      {"dropped", one.dropped},
                                      {"torn", one.torn},
                                      {"contents_lost", one.contents_lost},
                                      {"last_ns", one.last},
                                      {"clock_offset_ns", one.clock_offset},
                                      {"clock_error_ns", one.clock_error},
                                      {"clock_drift_ppm", one.clock_drift_ppm},
                                      {"clock_aligned", one.clock_aligned}});
  return all;
}

/// The last value of each metric, and over the last seconds how much was done.
boost::json::object figures_json(const trace::recording& of) {
  boost::json::object figures;
  for (const event& e : of.events)
    if (e.what == kind::metric) {
      const std::string_view name = trace::name_of(static_cast<trace::metric_name>(e.type));
      figures[name == "samples/s"   ? "samples_per_s"
              : name == "test loss" ? "test_loss"
                                    : name] = std::bit_cast<double>(e.raw);
    }
  constexpr nanoseconds recent = 5'000'000'000;
  const nanoseconds first = of.events.empty() ? 0 : of.events.front().begin;
  const nanoseconds since = std::max(first, of.end() - recent);
  const double seconds = static_cast<double>(of.end() - since) / 1e9;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  for (const flow& one : sum_flows(of, since)) {
    messages += one.messages;
    bytes += one.bytes;
  }
  if (seconds > 0) {
    figures["messages_per_s"] = static_cast<double>(messages) / seconds;
    figures["bytes_per_s"] = static_cast<double>(bytes) / seconds;
  }
  return figures;
}

/// Types of messages that occur, of the many that there may be.
std::set<std::uint16_t> types_in(const trace::recording& of) {
  std::vector<bool> occurs(std::size_t{1} << 16);
  for (const event& e : of.events)
    if (e.what == kind::handled) occurs[e.type] = true;
  std::set<std::uint16_t> types;
  for (std::size_t type = 0; type < occurs.size(); ++type)
    if (occurs[type]) types.insert(static_cast<std::uint16_t>(type));
  return types;
}

std::string text_at(const boost::json::object& from, const char* key) {
  const boost::json::value* found = from.if_contains(key);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : "";
}

/// What happens to an actor right now.
boost::json::object actor_json(const reading& of, const trace::actor_state& state) {
  boost::json::object one{{"actor", state.name},  {"role", role_of(state.name)}, {"process", state.process},
                          {"alive", state.alive}, {"step", state.step},          {"handled", state.handled}};
  if (state.message_begin >= 0 && state.alive) {
    one["working_ns"] = std::max<nanoseconds>(0, of.now - state.message_begin);
    if (state.message != 0) {
      one["message"] = write_id(state.message);
      one["message_type"] = of.what->type_name(state.message_type);
    }
  }
  boost::json::array open;
  for (const trace::actor_state::request& request : state.open)
    open.push_back(boost::json::object{{"id", write_id(request.id)},
                                       {"type", of.what->type_name(request.type)},
                                       {"peer", of.what->actor_name(request.peer)},
                                       {"step", request.step},
                                       {"waited_ns", std::max<nanoseconds>(0, of.now - request.since)}});
  one["open"] = std::move(open);
  one["open_more"] = state.open_more;
  return one;
}

/// Actors that are on no board, but in records: those of a log whose process ended.
std::vector<trace::actor_state> all_actors(const trace::recording& of, const std::vector<flow>& flows) {
  std::vector<trace::actor_state> all = of.actors;
  std::set<std::uint16_t> known;
  for (const trace::actor_state& one : all) known.insert(one.actor);
  const auto add = [&](std::uint16_t actor) {
    if (!known.insert(actor).second) return;
    trace::actor_state& one = all.emplace_back();
    one.actor = actor;
    one.name = of.actor_name(actor);
    one.message_begin = -1;
    one.step_begin = -1;
  };
  for (const flow& one : flows) {
    add(one.from);
    add(one.to);
  }
  std::ranges::sort(all, {}, &trace::actor_state::actor);
  return all;
}

/// The last word on each link's credit: bytes under way from a process to a node, and how often somebody had to wait.
boost::json::array credits_json(const trace::recording& of, nanoseconds since) {
  struct link {
    std::uint64_t under_way = 0;
    std::uint64_t waits = 0;
  };
  std::map<std::pair<std::uint32_t, std::uint16_t>, link> links;
  for (const event& e : of.events) {
    if (e.what != kind::credit && e.what != kind::credit_wait) continue;
    link& one = links[{e.process, e.aux}];
    one.under_way = e.raw;
    if (e.what == kind::credit_wait && e.begin >= since) ++one.waits;
  }
  boost::json::array all;
  for (const auto& [ends, one] : links) {
    const auto& [process, node] = ends;
    const auto other = std::ranges::find(of.processes, node, &trace::process_info::node);
    boost::json::object link{{"process", process}, {"node", node}, {"under_way", one.under_way}, {"waits", one.waits}};
    if (other != of.processes.end()) link["to_process"] = other - of.processes.begin();
    all.push_back(std::move(link));
  }
  return all;
}

}  // namespace

std::string role_of(std::string_view name) {
  const auto space = name.rfind(' ');
  const bool numbered =
      space != std::string_view::npos && name.find_first_not_of("0123456789", space + 1) == std::string_view::npos;
  return std::string(numbered ? name.substr(0, space) : name);
}

boost::json::object run_json(const reading& of) {
  boost::json::object run{{"generation", of.generation}, {"live", of.live}, {"problem", of.problem}};
  if (!of.what) return run;
  const trace::recording& what = *of.what;
  run["run"] = fmt::format("{:016x}", what.run);
  run["now_ns"] = of.now;
  run["begin_ns"] = what.events.empty() ? 0 : what.events.front().begin;
  run["end_ns"] = what.end();
  run["began_unix_ms"] = what.realtime_begin_ns / 1'000'000;
  run["records"] = what.events.size();
  run["contents"] = what.contents.size();
  run["exported_most"] = exported_most;
  if (!what.processes.empty()) {
    run["mode"] = text_at(what.processes.front().metadata, "mode");
    run["command"] = text_at(what.processes.front().metadata, "command");
  }
  run["processes"] = processes_json(of);
  run["warnings"] = boost::json::array(what.warnings.begin(), what.warnings.end());
  run["figures"] = figures_json(what);
  boost::json::array types;
  for (const std::uint16_t type : types_in(what)) types.emplace_back(what.type_name(type));
  run["types"] = std::move(types);
  boost::json::array actors;
  for (const trace::actor_state& one : what.actors) actors.emplace_back(one.name);
  run["actors"] = std::move(actors);
  return run;
}

boost::json::object topology_json(const reading& of, nanoseconds recent) {
  const trace::recording& what = *of.what;
  const nanoseconds first = what.events.empty() ? 0 : what.events.front().begin;
  const nanoseconds since = std::max(first, what.end() - recent);
  const nanoseconds span = std::max<nanoseconds>(1, what.end() - since);
  const std::vector<flow> flows = sum_flows(what, since);
  const std::vector<activity> activities = sum_activities(what, since);

  boost::json::array actors;
  for (const trace::actor_state& state : all_actors(what, flows)) {
    boost::json::object one = actor_json(of, state);
    const auto sums = std::ranges::find(activities, state.actor, &activity::actor);
    const bool acted = sums != activities.end();
    one["busy"] = acted ? static_cast<double>(sums->worked) / static_cast<double>(span) : 0.0;
    one["queue"] = acted ? static_cast<double>(sums->queued) / static_cast<double>(span) : 0.0;
    actors.push_back(std::move(one));
  }

  boost::json::array edges;
  for (std::size_t i = 0; i < flows.size();) {  // types of one edge follow each other
    flow sum = flows[i];
    for (++i; i < flows.size() && flows[i].from == sum.from && flows[i].to == sum.to; ++i) {
      sum.messages += flows[i].messages;
      sum.bytes += flows[i].bytes;
      sum.latency += flows[i].latency;
      sum.queued += flows[i].queued;
    }
    const auto messages = static_cast<double>(sum.messages);
    edges.push_back(boost::json::object{{"from", what.actor_name(sum.from)},
                                        {"to", what.actor_name(sum.to)},
                                        {"messages", sum.messages},
                                        {"bytes", sum.bytes},
                                        {"latency_ns", static_cast<double>(sum.latency) / messages},
                                        {"queued_ns", static_cast<double>(sum.queued) / messages},
                                        {"queue", static_cast<double>(sum.queued) / static_cast<double>(span)}});
  }
  return {{"span_ns", span},
          {"actors", std::move(actors)},
          {"edges", std::move(edges)},
          {"credits", credits_json(what, since)}};
}

boost::json::object traffic_json(const trace::recording& of, const std::vector<flow>& flows) {
  boost::json::array actors;
  for (const trace::actor_state& one : all_actors(of, flows)) actors.emplace_back(one.name);
  boost::json::array cells;
  for (const flow& one : flows) {
    const auto messages = static_cast<double>(one.messages);
    cells.push_back(boost::json::object{{"from", of.actor_name(one.from)},
                                        {"to", of.actor_name(one.to)},
                                        {"type", of.type_name(one.type)},
                                        {"messages", one.messages},
                                        {"bytes", one.bytes},
                                        {"travel_ns", static_cast<double>(one.travel) / messages},
                                        {"queued_ns", static_cast<double>(one.queued) / messages},
                                        {"worked_ns", static_cast<double>(one.worked) / messages},
                                        {"latency_ns", static_cast<double>(one.latency) / messages},
                                        {"latency_longest_ns", one.latency_longest}});
  }
  return {{"actors", std::move(actors)}, {"cells", std::move(cells)}};
}

}  // namespace troupe::page
