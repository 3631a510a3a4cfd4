#include "analysis/waterfall.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <map>
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
    bar["name"] = is_range ? trace::name_of(static_cast<trace::range_name>(e.type)) : "collective";
  }
  return bar;
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

}  // namespace troupe::analysis
