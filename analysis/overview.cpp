#include "analysis/overview.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/json/array.hpp>
#include <set>
#include <utility>

#include "analysis/message_id.hpp"
#include "analysis/summary.hpp"
#include "trace/names.hpp"

namespace troupe::analysis {

namespace {

/// An actor's name without its number, as in `trainer`.
std::string role_of(std::string_view name) {
  const auto space = name.rfind(' ');
  const bool numbered =
      space != std::string_view::npos && name.find_first_not_of("0123456789", space + 1) == std::string_view::npos;
  return std::string(numbered ? name.substr(0, space) : name);
}

trace::nanoseconds begin_of(const trace::recording& run) { return run.events.empty() ? 0 : run.events.front().begin; }

/// The last value of each metric, and messages and bytes per second over the last seconds.
boost::json::object figures_json(const trace::recording& of) {
  boost::json::object figures;
  for (const auto& [which, value] : last_figures(of)) {
    const std::string_view name = trace::name_of(which);
    figures[name == "samples/s" ? "samples_per_s" : name == "test loss" ? "test_loss" : name] = value;
  }
  constexpr trace::nanoseconds recent = 5'000'000'000;
  const trace::nanoseconds since = std::max(begin_of(of), of.end() - recent);
  const double seconds = static_cast<double>(of.end() - since) / 1e9;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  for (const edge_summary& one : summarize_edges(of, since)) {
    messages += one.messages;
    bytes += one.bytes;
  }
  if (seconds > 0) {
    figures["messages_per_s"] = static_cast<double>(messages) / seconds;
    figures["bytes_per_s"] = static_cast<double>(bytes) / seconds;
  }
  return figures;
}

/// The types of messages that were handled, of all that the protocol has.
boost::json::array types_json(const trace::recording& of) {
  std::vector<bool> occurs(std::size_t{1} << 16);
  for (const trace::event& e : of.events | of_kind(trace::kind::handled)) occurs[e.type] = true;
  boost::json::array types;
  for (std::size_t type = 0; type < occurs.size(); ++type)
    if (occurs[type]) types.emplace_back(of.type_name(static_cast<std::uint16_t>(type)));
  return types;
}

boost::json::array names_json(const std::vector<trace::actor_state>& actors) {
  boost::json::array names;
  for (const trace::actor_state& one : actors) names.emplace_back(one.name);
  return names;
}

/// What an actor is doing now.
boost::json::object actor_json(const trace::recording& of, const trace::actor_state& state) {
  boost::json::object one{{"actor", state.name},  {"role", role_of(state.name)}, {"process", state.process},
                          {"alive", state.alive}, {"step", state.step},          {"handled", state.handled}};
  if (state.message_begin >= 0 && state.alive) {
    one["working_ns"] = std::max<trace::nanoseconds>(0, of.end() - state.message_begin);
    if (state.message != 0) {
      one["message"] = write_id(state.message);
      one["message_type"] = of.type_name(state.message_type);
    }
  }
  boost::json::array open;
  for (const trace::actor_state::request& request : state.open)
    open.push_back(boost::json::object{{"id", write_id(request.id)},
                                       {"type", of.type_name(request.type)},
                                       {"peer", of.actor_name(request.peer)},
                                       {"step", request.step},
                                       {"waited_ns", std::max<trace::nanoseconds>(0, of.end() - request.since)}});
  one["open"] = std::move(open);
  one["open_more"] = state.open_more;
  return one;
}

/// The actors on the board, and those that are only in records because their process has ended; by number.
std::vector<trace::actor_state> all_actors(const trace::recording& of, const std::vector<edge_summary>& edges) {
  std::vector<trace::actor_state> all = of.actors;
  std::set<std::uint16_t> known;
  for (const trace::actor_state& one : all) known.insert(one.actor);
  for (const edge_summary& edge : edges)
    for (const std::uint16_t actor : {edge.sender, edge.receiver})
      if (known.insert(actor).second)
        all.push_back(
            {.actor = actor, .name = of.actor_name(actor), .step_begin = -1, .message_begin = -1, .open = {}});
  std::ranges::sort(all, {}, &trace::actor_state::actor);
  return all;
}

/// The credit of each link as last recorded: bytes under way from a process to a node, and how often a sender waited.
boost::json::array credits_json(const trace::recording& of, trace::nanoseconds since) {
  struct link {
    std::uint64_t under_way = 0;
    std::uint64_t waits = 0;
  };
  std::map<std::pair<std::uint32_t, std::uint16_t>, link> links;
  for (const trace::event& e : of.events | of_kind(trace::kind::credit, trace::kind::credit_wait)) {
    link& one = links[{e.process, e.aux}];
    one.under_way = e.raw;
    if (e.what == trace::kind::credit_wait && e.begin >= since) ++one.waits;
  }
  boost::json::array all;
  for (const auto& [ends, one] : links) {
    const auto& [process, peer] = ends;
    const auto other = std::ranges::find(of.processes, peer, &trace::process_info::node);
    boost::json::object link{{"process", process}, {"node", peer}, {"under_way", one.under_way}, {"waits", one.waits}};
    if (other != of.processes.end()) link["to_process"] = other - of.processes.begin();
    all.push_back(std::move(link));
  }
  return all;
}

}  // namespace

std::map<trace::metric_name, double> last_figures(const trace::recording& run) {
  std::map<trace::metric_name, double> last;
  for (const trace::event& e : run.events | of_kind(trace::kind::metric))
    last[static_cast<trace::metric_name>(e.type)] = std::bit_cast<double>(e.raw);
  return last;
}

boost::json::object run_json(const trace::recording& of) {
  boost::json::object run{{"run", fmt::format("{:016x}", of.run)},
                          {"begin_ns", begin_of(of)},
                          {"end_ns", of.end()},
                          {"began_unix_ms", of.realtime_begin_ns / 1'000'000},
                          {"records", of.events.size()},
                          {"contents", of.contents.size()},
                          {"processes", processes_json(of)},
                          {"warnings", boost::json::array(of.warnings.begin(), of.warnings.end())},
                          {"figures", figures_json(of)}};
  if (!of.processes.empty()) {
    run["mode"] = text_at(of.processes.front().metadata, "mode");
    run["command"] = text_at(of.processes.front().metadata, "command");
  }
  run["types"] = types_json(of);
  run["actors"] = names_json(of.actors);
  return run;
}

boost::json::object topology_json(const trace::recording& of, trace::nanoseconds recent) {
  const trace::nanoseconds since = std::max(begin_of(of), of.end() - recent);
  const auto span = static_cast<double>(std::max<trace::nanoseconds>(1, of.end() - since));
  const std::vector<edge_summary> by_type = summarize_edges(of, since);
  std::map<std::uint16_t, actor_summary> acted;
  for (const actor_summary& one : summarize_actors(of, since)) acted[one.actor] = one;

  boost::json::array actors;
  for (const trace::actor_state& state : all_actors(of, by_type)) {
    boost::json::object one = actor_json(of, state);
    const actor_summary& sums = acted[state.actor];
    one["busy"] = static_cast<double>(sums.working) / span;
    one["queue"] = static_cast<double>(sums.queued) / span;
    actors.push_back(std::move(one));
  }

  std::map<std::pair<std::uint16_t, std::uint16_t>, edge_summary> of_all_types;
  for (const edge_summary& one : by_type) {
    edge_summary& sum = of_all_types[{one.sender, one.receiver}];
    sum.messages += one.messages;
    sum.bytes += one.bytes;
    sum.latency += one.latency;
    sum.queued += one.queued;
  }
  boost::json::array edges;
  for (const auto& [ends, sum] : of_all_types)
    edges.push_back(boost::json::object{{"from", of.actor_name(ends.first)},
                                        {"to", of.actor_name(ends.second)},
                                        {"messages", sum.messages},
                                        {"bytes", sum.bytes},
                                        {"latency_ns", sum.latency},
                                        {"queued_ns", sum.queued},
                                        {"queue", static_cast<double>(sum.queued) / span}});
  return {{"actors", std::move(actors)}, {"edges", std::move(edges)}, {"credits", credits_json(of, since)}};
}

boost::json::object traffic_json(const trace::recording& of) {
  const std::vector<edge_summary> edges = summarize_edges(of);
  boost::json::array cells;
  for (const edge_summary& one : edges) {
    boost::json::object& cell = cells.emplace_back(edge_json(of, one)).as_object();
    cell["worked_ns"] = one.worked;
    cell["latency_ns"] = one.latency;
    cell["longest_ns"] = one.longest;
  }
  return {{"actors", names_json(all_actors(of, edges))}, {"cells", std::move(cells)}};
}

}  // namespace troupe::analysis
