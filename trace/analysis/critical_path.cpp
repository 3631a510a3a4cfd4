#include "trace/analysis/critical_path.hpp"

#include <algorithm>

namespace troupe::analysis {

namespace {

std::vector<contribution> sum_up(const std::vector<path_segment>& chain) {
  std::vector<contribution> parts;
  for (const path_segment& one : chain) {
    auto part = std::ranges::find(parts, one.what, &contribution::what);
    if (part == parts.end()) part = parts.insert(parts.end(), {one.what, 0, 0});
    part->time += one.duration();
    if (one.queued != 0) part->queued += one.duration();
  }
  return parts;
}

const contribution* largest_of(const std::vector<contribution>& parts) {
  const auto largest = std::ranges::max_element(parts, {}, &contribution::time);
  return largest == parts.end() ? nullptr : &*largest;
}

step_path path_of(const step_graph& graph, const step_window& window) {
  step_path path{window, graph.critical_path(), {}};
  path.parts = sum_up(path.chain);
  return path;
}

}  // namespace

const contribution* step_path::largest() const { return largest_of(parts); }

step_path find_critical_path(const causality& of, const step_window& window) {
  return path_of(step_graph(of, window), window);
}

step_study study_step(const causality& of, const step_window& window) {
  const step_graph graph(of, window);
  step_study study{path_of(graph, window), graph.slack(), {}};
  if (const contribution* largest = study.path.largest()) {
    const std::vector<path_segment> chain = graph.longest_path(largest->what, 0.5);
    const std::vector<contribution> parts = sum_up(chain);
    step_study::what_if halved{largest->what, 0, {}};
    for (const contribution& part : parts) halved.time += part.time;
    if (const contribution* next = largest_of(parts)) halved.largest = *next;
    study.halved = halved;
  }
  return study;
}

path_statistics gather(const std::vector<step_path>& paths) {
  struct gathered {
    std::vector<trace::nanoseconds> times;
    std::uint64_t largest = 0;
  };
  path_statistics all;
  all.steps = paths.size();
  std::vector<trace::nanoseconds> steps;
  std::map<path_part, gathered> parts;
  for (const step_path& path : paths) {
    steps.push_back(path.window.duration());
    all.sum += path.window.duration();
    for (const contribution& part : path.parts) parts[part.what].times.push_back(part.time);
    if (const contribution* largest = path.largest()) ++parts[largest->what].largest;
  }
  all.p50 = percentile(steps, 50);
  all.p95 = percentile(steps, 95);
  for (auto& [what, of] : parts) {
    path_statistics::part part;
    part.what = what;
    part.steps = of.times.size();
    part.largest = of.largest;
    for (const trace::nanoseconds time : of.times) part.sum += time;
    part.p50 = percentile(of.times, 50, paths.size() - of.times.size());
    part.p95 = percentile(of.times, 95, paths.size() - of.times.size());
    all.parts.push_back(part);
  }
  std::ranges::stable_sort(all.parts, std::ranges::greater{}, &path_statistics::part::sum);
  return all;
}

result<path_report> report_critical_path(const causality& of, std::optional<std::uint64_t> step) {
  const step_windows windows = find_steps(of.run());
  path_report report;
  report.common = windows.common;
  report.incomplete = windows.incomplete;
  if (step) {
    TROUPE_TRY(chosen, find_step(windows, *step));
    for (const step_window* one : chosen) report.studies.push_back(study_step(of, *one));
    return report;
  }
  if (windows.whole.empty()) return bad_input("the recording holds no whole step");
  report.studies.push_back(study_step(of, *std::ranges::max_element(windows.whole, {}, &step_window::duration)));
  for (const step_window& window : windows.whole) {
    report.paths.push_back(find_critical_path(of, window));
    report.paths.back().chain = {};
  }
  report.statistics = gather(report.paths);
  return report;
}

}  // namespace troupe::analysis
