#include "analysis/charts.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analysis/message_id.hpp"
#include "trace/names.hpp"

namespace troupe::analysis {

namespace {

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
    bar["name"] = is_range ? trace::name_of(range_of(e)) : "collective";
  }
  return bar;
}

using point = std::pair<std::uint64_t, double>;
using curve = std::vector<point>;

/// Halves of pairs would hide a spike of one step: of each stretch its least and largest are kept, in order.
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
  // What began long before and still went on is rare: looked for among the events of twice the step's length before.
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
    all.push_back(to_json(std::string(trace::name_of(name)), unit, points, points_most));
  }
  curve times;
  for (const step_window& step : steps.whole) times.emplace_back(step.step, static_cast<double>(step.duration()) / 1e6);
  if (!times.empty()) all.push_back(to_json("step time", "ms", times, points_most));
  return all;
}

}  // namespace troupe::analysis
