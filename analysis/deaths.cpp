#include "analysis/deaths.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace troupe::analysis {

namespace {

/// Whether another process has seen the link to process `i` go down, after all that `i` recorded, and not come back.
bool is_cut_off(const trace::recording& run, std::uint32_t i) {
  const trace::process_info& process = run.processes[i];
  bool down = false;
  for (const trace::event& one : run.events) {
    if (one.process == i || one.aux != process.node) continue;
    if (one.what == trace::kind::link_down && one.begin + process.clock_error >= process.last) down = true;
    if (one.what == trace::kind::link_up) down = false;
  }
  return down;
}

bool is_dead(const trace::recording& run, std::uint32_t i) {
  const trace::process_info& process = run.processes[i];
  const auto others = [&](auto is_so) {
    for (std::uint32_t j = 0; j < run.processes.size(); ++j)
      if (j != i && is_so(run.processes[j])) return true;
    return false;
  };
  if (process.end == trace::ending::clean || process.alive.value_or(false)) return false;
  if (process.end == trace::ending::none && process.alive)  // not any more; if nobody has outlived it, all were killed
    return run.processes.size() == 1 || others([](const trace::process_info& other) {
             return other.alive.value_or(false) || other.end != trace::ending::none;
           });
  if (process.end == trace::ending::failed)
    return others([](const trace::process_info& other) { return other.end == trace::ending::none; });
  return others([&](const trace::process_info& other) {
           return other.end != trace::ending::none && other.last > process.last;
         }) ||
         is_cut_off(run, i);
}

}  // namespace

std::vector<death> find_deaths(const trace::recording& run) {
  std::vector<death> all;
  for (const trace::event& one : run.events | of_kind(trace::kind::exit))
    if (one.aux != 0 && run.processes[one.process].end != trace::ending::clean)
      all.push_back({one.process, one.actor, one.begin, one.aux});
  for (std::uint32_t i = 0; i < run.processes.size(); ++i)
    if (is_dead(run, i)) all.push_back({i, {}, run.processes[i].last, 0});
  std::ranges::stable_sort(all, {}, &death::when);
  return all;
}

std::string name_of(const trace::recording& run, const death& what) {
  const std::uint32_t pid = run.processes[what.process].pid;
  if (what.actor) return fmt::format("{} (pid {})", run.actor_name(*what.actor), pid);
  std::vector<std::string> names;
  for (const trace::actor_state& actor : run.actors)
    if (actor.process == what.process && is_main_actor(actor)) names.push_back(actor.name);
  if (names.empty()) names.push_back(fmt::format("node {}", run.processes[what.process].node));
  return fmt::format("{} (pid {})", fmt::join(names, ", "), pid);
}

}  // namespace troupe::analysis
