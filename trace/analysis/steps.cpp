#include "trace/analysis/steps.hpp"

#include <limits>
#include <map>
#include <set>

#include "trace/analysis/training_order.hpp"

namespace troupe::analysis {

namespace {

/// Whether all actors commit each step together.
bool commits_together(const trace::recording& run) {
  const auto rows_type = type_number<msg::rows>(run);
  std::set<std::pair<std::uint16_t, std::uint64_t>> applied;
  for (const trace::event& one : run.events) {
    if (is_apply(one) && !applied.emplace(one.actor, one.step).second) return false;
    if (one.what == trace::kind::handled && one.aux > 0 && one.type == rows_type) return false;
  }
  return true;
}

struct step_parts {
  std::set<std::uint16_t> trainers;
  std::set<std::uint16_t> servers;
  std::vector<step_window::commit> commits;

  trace::nanoseconds end() const { return std::ranges::max_element(commits, {}, &step_window::commit::when)->when; }
};

step_windows common_steps(const trace::recording& run, trace::nanoseconds since) {
  std::map<std::uint64_t, step_parts> steps;
  std::set<std::uint16_t> trainers;
  std::set<std::uint16_t> servers;
  for (const trace::event& one : run.events) {
    if (one.what != trace::kind::step && !is_apply(one)) continue;
    step_parts& parts = steps[one.step];
    (one.what == trace::kind::step ? trainers : servers).insert(one.actor);
    (one.what == trace::kind::step ? parts.trainers : parts.servers).insert(one.actor);
    parts.commits.push_back({one.actor, one.end});
  }
  // No server applies a step whose gradients are accumulated or skipped.
  const auto all_there = [&](const step_parts& parts) {
    return parts.trainers == trainers && (parts.servers.empty() || parts.servers == servers);
  };
  step_windows found;
  for (auto at = steps.begin(); at != steps.end(); ++at) {
    const auto& [step, parts] = *at;
    const auto last = at == steps.begin() ? steps.end() : std::prev(at);
    const bool whole = last != steps.end() && last->first + 1 == step && all_there(last->second) && all_there(parts) &&
                       last->second.end() >= since && last->second.end() < parts.end();
    if (whole)
      found.whole.push_back({step, last->second.end(), parts.end(), parts.commits});
    else
      ++found.incomplete;
  }
  return found;
}

step_windows own_steps(const trace::recording& run, trace::nanoseconds since) {
  step_windows found;
  found.common = false;
  std::map<std::uint16_t, const trace::event*> last;
  for (const trace::event& one : run.events | of_kind(trace::kind::step)) {
    const trace::event*& before = last[one.actor];
    const bool whole =
        before != nullptr && before->step + 1 == one.step && before->end >= since && before->end < one.end;
    if (whole)
      found.whole.push_back({one.step, before->end, one.end, {{one.actor, one.end}}});
    else
      ++found.incomplete;
    before = &one;
  }
  return found;
}

}  // namespace

step_windows find_steps(const trace::recording& run) {
  const trace::nanoseconds since = run.complete_from();
  step_windows found = commits_together(run) ? common_steps(run, since) : own_steps(run, since);
  std::ranges::stable_sort(found.whole, {}, &step_window::end);
  return found;
}

trace::nanoseconds step_time(const step_windows& all, std::size_t percent) {
  std::vector<trace::nanoseconds> times;
  for (const step_window& one : all.whole) times.push_back(one.duration());
  return percentile(times, percent);
}

result<std::vector<const step_window*>> find_step(const step_windows& all, std::uint64_t step) {
  std::vector<const step_window*> found;
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t last = 0;
  for (const step_window& one : all.whole) {
    if (one.step == step) found.push_back(&one);
    first = std::min(first, one.step);
    last = std::max(last, one.step);
  }
  if (!found.empty()) return found;
  if (all.whole.empty()) return bad_input("step {}: the recording holds no whole step", step);
  return bad_input("step {}: the recording holds whole steps between {} and {}, not this one", step, first, last);
}

}  // namespace troupe::analysis
