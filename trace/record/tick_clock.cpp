#include "trace/record/tick_clock.hpp"

#include <algorithm>

namespace troupe::trace {

namespace {

constexpr double ns_per_second = 1e9;
/// 4.5 years: no machine has run for longer. Larger values, from damaged files, are not used, so that no difference of
/// two times overflows.
constexpr std::int64_t most_ns = std::int64_t{1} << 57;

bool is_plausible(const clock_sample& sample) {
  constexpr std::int64_t most_realtime_ns = 4'000'000'000'000'000'000;  // 2096
  return sample.ticks != 0 && sample.monotonic_ns >= 0 && sample.monotonic_ns <= most_ns && sample.realtime_ns >= 0 &&
         sample.realtime_ns <= most_realtime_ns;
}

std::int64_t after(std::int64_t ns, std::uint64_t from, std::uint64_t to, double ns_per_tick) {
  const double ticks = to >= from ? static_cast<double>(to - from) : -static_cast<double>(from - to);
  constexpr auto most = static_cast<double>(most_ns);
  return std::clamp(ns + static_cast<std::int64_t>(std::clamp(ticks * ns_per_tick, -most, most)), -most_ns, most_ns);
}

}  // namespace

/// A thread may lose its core between the clock reads of a sample; then the nanoseconds are too late. So of all samples
/// within a tenth of a second, the one with the earliest nanoseconds for its ticks is used.
tick_clock::tick_clock(std::vector<clock_sample> samples, double ticks_per_second) {
  std::erase_if(samples, [](const clock_sample& s) { return !is_plausible(s); });
  std::ranges::sort(samples, {}, &clock_sample::ticks);
  ns_per_tick_ = ticks_per_second > 0 ? ns_per_second / ticks_per_second : 1;
  if (samples.empty()) {
    knots_.push_back({0, 0});
    return;
  }
  const clock_sample& first = samples.front();
  realtime_offset_ns_ = first.realtime_ns - first.monotonic_ns;
  const clock_sample& last = samples.back();
  constexpr std::int64_t long_enough_ns = 100'000'000;
  if (last.monotonic_ns - first.monotonic_ns > long_enough_ns && last.ticks > first.ticks)
    ns_per_tick_ =
        static_cast<double>(last.monotonic_ns - first.monotonic_ns) / static_cast<double>(last.ticks - first.ticks);
  const auto lateness = [&](const clock_sample& s) {
    return s.monotonic_ns - after(first.monotonic_ns, first.ticks, s.ticks, ns_per_tick_);
  };
  std::int64_t period = -1;
  std::int64_t best = 0;
  for (const clock_sample& s : samples) {
    const std::int64_t mine = (s.monotonic_ns - first.monotonic_ns) / long_enough_ns;
    if (mine != period) {
      period = mine;
      knots_.push_back({s.ticks, s.monotonic_ns});
      best = lateness(s);
    } else if (lateness(s) < best) {
      knots_.back() = {s.ticks, s.monotonic_ns};
      best = lateness(s);
    }
  }
  for (std::size_t i = 1; i < knots_.size(); ++i) knots_[i].ns = std::max(knots_[i].ns, knots_[i - 1].ns);
}

std::int64_t tick_clock::monotonic_ns(std::uint64_t ticks) const {
  const auto next = std::ranges::upper_bound(knots_, ticks, {}, &knot::ticks);
  if (next == knots_.begin()) return after(next->ns, next->ticks, ticks, ns_per_tick_);
  const knot& before = *std::prev(next);
  if (next == knots_.end()) return after(before.ns, before.ticks, ticks, ns_per_tick_);
  const double share = static_cast<double>(ticks - before.ticks) / static_cast<double>(next->ticks - before.ticks);
  return before.ns + static_cast<std::int64_t>(share * static_cast<double>(next->ns - before.ns));
}

}  // namespace troupe::trace
