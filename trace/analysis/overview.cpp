#include "trace/analysis/overview.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "trace/analysis/message_id.hpp"
#include "trace/analysis/summary.hpp"
#include "trace/record/names.hpp"

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
    const std::string name = of.metric_text(which);
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

/// The types of the messages that were handled.
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
  boost::json::array calls;
  for (const auto& call : state.calls)
    calls.push_back(boost::json::object{{"call", title_of(call.what)},
                                        {"step", call.what.step},
                                        {"waited_ns", std::max<trace::nanoseconds>(0, of.end() - call.since)}});
  one["calls"] = std::move(calls);
  return one;
}

/// The actors on the board, and those that are only in records because their process has ended; by number.
std::vector<trace::actor_state> all_actors(const trace::recording& of, const std::vector<edge_summary>& edges) {
  std::vector<trace::actor_state> all = of.actors;
  std::set<std::uint16_t> known;
  for (const trace::actor_state& one : all) known.insert(one.actor);
  for (const edge_summary& edge : edges)
    for (const std::uint16_t actor : {edge.sender, edge.receiver})
      if (known.insert(actor).second) {
        trace::actor_state& one = all.emplace_back();
        one.actor = actor;
        one.name = of.actor_name(actor);
        one.step_begin = one.message_begin = -1;
      }
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

bool is_bar(const trace::event& e) {
  return (e.what == trace::kind::handled || e.what == trace::kind::range || e.what == trace::kind::checkpoint ||
          e.what == trace::kind::collective) &&
         e.end > e.begin;
}

boost::json::object bar_of(const trace::recording& of, const trace::event& e) {
  const bool is_message = e.what == trace::kind::handled;
  const bool is_range = e.what == trace::kind::range || e.what == trace::kind::checkpoint;
  boost::json::object bar{{"kind", trace::name_of(e.what)}, {"begin_ns", e.begin}, {"end_ns", e.end}, {"step", e.step}};
  if (is_message || (is_range && e.id != 0)) bar["id"] = write_id(e.id);
  if (is_message) {
    bar["name"] = of.type_name(e.type);
    bar["from"] = of.actor_name(trace::sender_of(e.id));
  } else {
    bar["name"] = is_range ? of.range_text(range_of(e)) : "collective";
  }
  return bar;
}

using point = std::pair<std::uint64_t, double>;
using curve = std::vector<point>;

/// Keeps the minimum and the maximum of each range, in order, so that a spike of one step stays visible.
curve thinned(const curve& all, std::size_t points_most) {
  if (all.size() <= points_most) return all;
  curve fewer;
  const std::size_t stretches = std::max<std::size_t>(points_most / 2, 1);
  for (std::size_t i = 0; i < stretches; ++i) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(all.size() * i / stretches);
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(all.size() * (i + 1) / stretches);
    auto [least, most] =
        std::minmax_element(begin, end, [](const point& a, const point& b) { return a.second < b.second; });
    if (most < least) std::swap(least, most);
    fewer.push_back(*least);
    if (most != least) fewer.push_back(*most);
  }
  return fewer;
}

boost::json::object to_json(const std::string& name, const std::string& unit, const curve& all, std::size_t most) {
  boost::json::array points;
  for (const auto& [step, value] : thinned(all, most)) points.push_back(boost::json::array{step, value});
  return {{"name", name}, {"unit", unit}, {"points", std::move(points)}};
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
                          {"attempts", attempts_json(of)},
                          {"warnings", boost::json::array(of.warnings.begin(), of.warnings.end())},
                          {"figures", figures_json(of)}};
  if (!of.processes.empty()) {
    run["mode"] = text_at(of.processes.front().metadata, "mode");
    run["command"] = text_at(of.processes.front().metadata, "command");
  }
  const auto master = std::ranges::find(of.actors, "master", &trace::actor_state::name);
  if (master != of.actors.end()) run["master_process"] = master->process;
  if (const trace::attempt_info* now = of.attempt()) {
    run["attempt"] = now->number;
    run["goodput"] = trace::goodput(*now);
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

boost::json::object steps_json(const trace::recording& of, const step_windows& all, std::size_t last) {
  boost::json::array steps;
  for (std::size_t i = all.whole.size() - std::min(all.whole.size(), last); i < all.whole.size(); ++i) {
    const step_window& one = all.whole[i];
    boost::json::object step{{"step", one.step}, {"begin_ns", one.begin}, {"time_ns", one.duration()}};
    if (!all.common && !one.commits.empty()) step["trainer"] = of.actor_name(one.commits.back().actor);
    steps.push_back(std::move(step));
  }
  boost::json::object summary{{"recorded", all.whole.size()}, {"common", all.common}, {"steps", std::move(steps)}};
  if (all.whole.empty()) return summary;
  summary["p50_ns"] = step_time(all, 50);
  summary["p95_ns"] = step_time(all, 95);
  const auto [first, newest] = std::ranges::minmax(all.whole, {}, &step_window::step);
  summary["first_step"] = first.step;
  summary["last_step"] = newest.step;
  return summary;
}

boost::json::object waterfall_json(const trace::recording& of, const step_window& step, std::size_t bars_most) {
  // Events that began long before and still last are rare: only those within twice the step's length before are
  // searched.
  const trace::nanoseconds early = step.begin - 2 * (step.duration());
  std::vector<const trace::event*> bars;
  for (auto e = std::ranges::lower_bound(of.events, early, {}, &trace::event::begin);
       e != of.events.end() && e->begin < step.end; ++e)
    if (is_bar(*e) && e->end > step.begin) bars.push_back(&*e);
  const std::size_t left_out = bars.size() - std::min(bars.size(), bars_most);
  if (left_out > 0) {
    const auto longer = [](const trace::event* a, const trace::event* b) {
      return a->end - a->begin > b->end - b->begin;
    };
    std::nth_element(bars.begin(), bars.begin() + static_cast<std::ptrdiff_t>(bars_most), bars.end(), longer);
    bars.resize(bars_most);
  }
  std::ranges::sort(bars, {}, [](const trace::event* e) { return std::pair(e->begin, -e->end); });
  std::map<std::uint16_t, boost::json::array> rows;
  for (const trace::event* e : bars) rows[e->actor].push_back(bar_of(of, *e));
  boost::json::array actors;
  for (auto& [actor, row] : rows)
    actors.push_back(boost::json::object{{"actor", of.actor_name(actor)}, {"bars", std::move(row)}});
  return {{"step", step.step},
          {"begin_ns", step.begin},
          {"end_ns", step.end},
          {"left_out", left_out},
          {"actors", std::move(actors)}};
}

boost::json::array curves_of(const trace::recording& of, const step_windows& steps, std::size_t points_most) {
  std::map<std::uint16_t, curve> metrics;
  for (const trace::event& e : of.events | of_kind(trace::kind::metric))
    if (const auto value = std::bit_cast<double>(e.raw); std::isfinite(value))
      metrics[e.type].emplace_back(e.step, value);
  boost::json::array all;
  for (auto& [metric, points] : metrics) {
    std::ranges::stable_sort(points, {}, &point::first);
    const auto name = static_cast<trace::metric_name>(metric);
    const char* unit = name == trace::metric_name::samples_per_s ? "/s" : "";
    all.push_back(to_json(of.metric_text(name), unit, points, points_most));
  }
  curve times;
  for (const step_window& step : steps.whole) times.emplace_back(step.step, static_cast<double>(step.duration()) / 1e6);
  if (!times.empty()) all.push_back(to_json("step time", "ms", times, points_most));
  return all;
}

}  // namespace troupe::analysis
