#include "trace/record/stall_watch.hpp"

#include <algorithm>
#include <ctime>
#include <system_error>
#include <utility>

#include "trace/record/clock.hpp"

namespace troupe::trace {

namespace {

wake_up wake_up_now() {
  constexpr std::uint64_t ns_per_s = 1'000'000'000;
  timespec computed{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &computed);
  return {ticks_now(),
          static_cast<std::uint64_t>(computed.tv_sec) * ns_per_s + static_cast<std::uint64_t>(computed.tv_nsec)};
}

/// The record belongs to the first of the process's actors, for readers that show an actor with each record.
record record_of(const stall& what, const recorder& of) {
  const auto actors = of.actors();
  const std::uint16_t actor = actors.empty() ? std::uint16_t{0} : actors.front()->actor;
  return {.begin = what.begin,
          .busy48_type16 = record::pack(what.end - what.begin, 0),
          .queued48_actor16 = record::pack(0, actor),
          .bytes32_kind8_flags8_stamp16 = pack_kind(0, kind::stalled, 0)};
}

}  // namespace

std::optional<stall> find_stall(const wake_up& before, const wake_up& last, const wake_up& now,
                                double ticks_per_second) {
  const auto ticks_of = [&](std::chrono::duration<double> time) {
    return static_cast<std::uint64_t>(time.count() * ticks_per_second);
  };
  const auto computed_in = [&](const wake_up& from, const wake_up& to) {
    return ticks_of(std::chrono::nanoseconds(to.computed_ns - from.computed_ns));
  };
  const std::uint64_t due = last.ticks + ticks_of(stall_look_interval);
  if (now.ticks < due + ticks_of(stall_least)) return std::nullopt;
  const std::uint64_t longer = std::max(last.ticks - before.ticks, ticks_of(stall_look_interval));
  const double share = static_cast<double>(ticks_of(stall_look_interval)) / static_cast<double>(longer);
  const auto usual = static_cast<std::uint64_t>(static_cast<double>(computed_in(before, last)) * share);
  if (computed_in(last, now) > usual + (now.ticks - due) / 2) return std::nullopt;
  return stall{due, now.ticks};
}

stall_watch::stall_watch(recorder& to) {
  try {
    thread_ = std::thread([this, &to] { follow(to); });
  } catch (const std::system_error&) {
    return;  // the run matters more
  }
}

stall_watch::~stall_watch() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  end_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void stall_watch::follow(recorder& to) {
  const double rate = ticks_per_second();
  wake_up before = wake_up_now();
  for (wake_up last = before;;) {
    {
      std::unique_lock lock(mutex_);
      if (end_.wait_for(lock, stall_look_interval, [this] { return has_ended_; })) return;
    }
    const wake_up now = wake_up_now();
    // A process that was refused before it took part has an empty recording, and must keep that.
    if (!to.is_empty())
      if (const auto found = find_stall(before, last, now, rate)) to.append(record_of(*found, to));
    before = std::exchange(last, now);
  }
}

}  // namespace troupe::trace
