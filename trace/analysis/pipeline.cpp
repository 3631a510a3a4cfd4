#include "trace/analysis/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <map>

#include "base/mapped.hpp"
#include "base/units.hpp"
#include "trace/analysis/table.hpp"

namespace troupe::analysis {

namespace {

using trace::nanoseconds;

struct window {
  nanoseconds begin = 0;
  nanoseconds end = 0;
};

bool is_pass(const trace::event& one) {
  if (one.what != trace::kind::range) return false;
  return range_of(one) == trace::range_name::forward || range_of(one) == trace::range_name::backward;
}

bool is_wait(const trace::event& one) {
  return one.what == trace::kind::range && range_of(one) == trace::range_name::wait_for_slices;
}

/// Returns the times from each step's first pass to its last one, by begin; steps that overlap share one. Sets `steps`
/// to the number of steps.
std::vector<window> windows_of(const trace::recording& run, std::uint64_t& steps) {
  std::map<std::uint64_t, window> by_step;
  for (const trace::event& one : run.events) {
    if (!is_pass(one)) continue;
    const auto [at, is_new] = by_step.try_emplace(one.step, window{one.begin, one.end});
    at->second.begin = std::min(at->second.begin, one.begin);
    at->second.end = std::max(at->second.end, one.end);
  }
  steps = by_step.size();
  auto all = mapped(by_step, [](const auto& one) { return one.second; });
  std::ranges::sort(all, {}, &window::begin);
  std::vector<window> apart;
  for (const window& one : all) {
    if (apart.empty() || one.begin >= apart.back().end)
      apart.push_back(one);
    else
      apart.back().end = std::max(apart.back().end, one.end);
  }
  return apart;
}

/// How much of the windows [begin, end) covers.
nanoseconds within(const std::vector<window>& windows, nanoseconds begin, nanoseconds end) {
  nanoseconds sum = 0;
  auto at = std::ranges::lower_bound(windows, begin, {}, &window::end);
  for (; at != windows.end() && at->begin < end; ++at) sum += std::min(end, at->end) - std::max(begin, at->begin);
  return sum;
}

}  // namespace

double pipeline_use::bubble() const {
  nanoseconds passes = 0;
  for (const stage& one : stages) passes += one.passes;
  const double whole = static_cast<double>(length) * static_cast<double>(stages.size());
  return whole > 0 ? 1 - static_cast<double>(passes) / whole : 0;
}

pipeline_use find_pipeline_use(const trace::recording& run) {
  pipeline_use found;
  const std::vector<window> windows = windows_of(run, found.steps);
  for (const window& one : windows) found.length += one.end - one.begin;
  std::map<std::uint16_t, pipeline_use::stage> stages;
  std::map<std::uint16_t, std::vector<window>> passes;  // by actor, one after another
  for (const trace::event& one : run.events) {
    if (!is_pass(one)) continue;
    pipeline_use::stage& its = stages[one.actor];
    its.actor = one.actor;
    ++(range_of(one) == trace::range_name::forward ? its.forward : its.backward);
    its.passes += one.end - one.begin;
    passes[one.actor].push_back({one.begin, one.end});
  }
  for (auto& [actor, all] : passes) std::ranges::sort(all, {}, &window::begin);
  // Evaluations also wait for slices; these waits do not count.
  for (const trace::event& one : run.events)
    if (const auto its = stages.find(one.actor); its != stages.end() && is_wait(one))
      its->second.for_slices += within(passes[one.actor], one.begin, one.end);
  // Ranges may be part of a message's handling, so their times must not count twice.
  std::map<std::uint16_t, nanoseconds> busy_until;
  for (const trace::event& one : run.events | of_kind(trace::kind::handled, trace::kind::range, trace::kind::timer)) {
    const auto its = stages.find(one.actor);
    if (its == stages.end()) continue;
    const auto [until, is_new] = busy_until.try_emplace(one.actor, one.begin);
    const nanoseconds begin = std::max(one.begin, until->second);
    if (one.end > begin) its->second.other += within(windows, begin, one.end);
    until->second = std::max(until->second, one.end);
  }
  for (auto& [actor, one] : stages) {
    one.other = std::max<nanoseconds>(one.other - one.passes, 0);
    one.passes -= one.for_slices;
    found.stages.push_back(one);
  }
  return found;
}

std::string pipeline_text(const trace::recording& run, const pipeline_use& what, std::size_t limit) {
  if (what.stages.empty()) return "";
  const bool has_slices =
      std::ranges::any_of(what.stages, [](const pipeline_use::stage& one) { return one.for_slices > 0; });
  std::vector<std::string> head = {"stage", "forward", "backward", "passes", "of the time", "other work", "nothing"};
  if (has_slices) head.emplace_back("for slices");
  table rows(head, "l" + std::string(head.size() - 1, 'r'));
  for (const pipeline_use::stage& one : what.stages) {
    const nanoseconds nothing = what.length - one.passes - one.for_slices - one.other;
    std::vector<std::string> row = {run.actor_name(one.actor),
                                    count_text(one.forward),
                                    count_text(one.backward),
                                    time_text(one.passes),
                                    share_text(one.passes, what.length),
                                    share_text(one.other, what.length),
                                    share_text(std::max<nanoseconds>(nothing, 0), what.length)};
    if (has_slices) row.push_back(share_text(one.for_slices, what.length));
    rows.add(std::move(row));
  }
  return fmt::format("\nStages, from the first pass of each of {} steps to its last: a bubble of {:.1f} %\n",
                     count_text(what.steps), 100 * what.bubble()) +
         rows.text(limit);
}

boost::json::object pipeline_json(const trace::recording& run, const pipeline_use& what) {
  boost::json::array stages;
  for (const pipeline_use::stage& one : what.stages) {
    boost::json::object its{{"actor", run.actor_name(one.actor)},
                            {"forward", one.forward},
                            {"backward", one.backward},
                            {"passes_ns", one.passes},
                            {"other_ns", one.other}};
    if (one.for_slices > 0) its["for_slices_ns"] = one.for_slices;
    stages.push_back(std::move(its));
  }
  return {{"steps", what.steps}, {"length_ns", what.length}, {"bubble", what.bubble()}, {"stages", std::move(stages)}};
}

}  // namespace troupe::analysis
