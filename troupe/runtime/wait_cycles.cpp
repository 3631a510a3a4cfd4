#include "troupe/runtime/wait_cycles.hpp"

#include <algorithm>
#include <cstddef>

namespace troupe::runtime {

namespace {

/// Describes a cycle, with the same text for all of its members.
std::string cycle_text(std::vector<msg::peer_wait> cycle) {
  std::rotate(cycle.begin(), std::ranges::min_element(cycle, {}, &msg::peer_wait::rank), cycle.end());
  std::string text = "trainers wait for each other, and none of them can continue: ";
  for (const msg::peer_wait& one : cycle) text += one.words + "; ";
  return text + "all trainers call what belongs together, in the same order";
}

}  // namespace

void wait_cycles::look() {
  const auto now = trainer_.waits_now();
  const bool lasts = now && last_ == now->what;
  if (lasts) send(*now, ++probes_, {});
  delay_ = lasts ? std::min(2 * delay_, longest) : shortest;
  last_ = now ? std::optional(now->what) : std::nullopt;
  trainer_.look_after(delay_);
}

/// Adds this trainer's wait to a probe, and sends it to the trainers that it waits for.
void wait_cycles::send(const trainer_wait& own, std::uint64_t number, std::vector<msg::peer_wait> path) {
  path.push_back(own.what);
  for (const std::uint32_t rank : own.on) trainer_.send_probe(rank, number, path);
}

/// Whether a path contains each trainer at most once, and ends at the sender.
bool wait_cycles::is_possible(std::uint32_t sender, const std::vector<msg::peer_wait>& path) const {
  if (path.empty() || path.back().rank != sender) return false;
  std::vector<bool> is_there(passed_on_.size());
  return std::ranges::all_of(path, [&](const msg::peer_wait& one) {
    if (one.rank >= is_there.size() || is_there[one.rank]) return false;
    is_there[one.rank] = true;
    return true;
  });
}

bool wait_cycles::take(std::uint32_t sender, const msg::wait_probe& probe) {
  if (!is_possible(sender, probe.path)) return false;
  const auto now = trainer_.waits_now();
  if (!now || !trainer_.owes(probe.path.back())) return true;
  const msg::peer_wait& first = probe.path.front();
  if (first.rank == rank_) {
    if (first == now->what) trainer_.waits_for_ever(cycle_text(probe.path));
    return true;
  }
  // A cycle without the first trainer: its own members find it.
  if (std::ranges::any_of(probe.path, [this](const msg::peer_wait& one) { return one.rank == rank_; })) return true;
  std::uint64_t& passed_on = passed_on_[first.rank];
  if (probe.number <= passed_on) return true;
  passed_on = probe.number;
  send(*now, probe.number, probe.path);
  return true;
}

}  // namespace troupe::runtime
