#include "analysis/curves.hpp"

#include <algorithm>
#include <bit>
#include <boost/json/object.hpp>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trace/names.hpp"

namespace troupe::analysis {

namespace {

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

boost::json::array curves_of(const trace::recording& of, const step_windows& steps, std::size_t points_most) {
  std::map<std::uint16_t, curve> metrics;
  for (const trace::event& e : of.events) {
    const auto value = std::bit_cast<double>(e.raw);
    if (e.what == trace::kind::metric && std::isfinite(value)) metrics[e.type].emplace_back(e.step, value);
  }
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
