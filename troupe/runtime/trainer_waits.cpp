// A trainer whose function waits for other trainers, for the search for wait cycles. The function's wait counts only
// while nothing else could make the trainer do something for others: no other task, no user's callback, no answer of a
// server.

#include <fmt/format.h>

#include <cstddef>
#include <utility>

#include "actors/common/failure.hpp"
#include "troupe/runtime/group_text.hpp"
#include "troupe/runtime/place.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe::runtime {

void trainer_runtime::look_for_cycles() {
  if (assigned_.trainers == 1) return;
  cycles_.emplace(static_cast<waiting_trainer&>(*this), rank(), assigned_.trainers);
  cycles_->look();
}

void trainer_runtime::look_after(std::chrono::milliseconds delay) {
  actor_.self->run_delayed(delay, [this] {
    if (phase_ != phase::over && cycles_) cycles_->look();
  });
}

/// The pending optimizer step, which ends when all trainers have taken it.
std::optional<trainer_wait> trainer_runtime::waits_for_step() const {
  const bool is_ending = phase_ == phase::ending;
  if (!steps_.waits_for_all || steps_.last->is_ready() || !(is_ending || steps_.last->has_task())) return {};
  std::string text =
      is_ending ? fmt::format("trainer {} has returned within optimizer step {}, of {} contexts", rank(),
                              schedule_.update(step), schedule_.accumulate)
                : fmt::format("trainer {} takes optimizer step {}{}", rank(), step, in_brackets(communicator_.place()));
  trainer_wait made{{rank(), msg::peer_wait::for_step, {}, 0, step, std::move(text)}, {}};
  for (std::uint32_t other = 0; other < assigned_.trainers; ++other)
    if (other != rank()) made.on.push_back(other);
  return made;
}

std::optional<trainer_wait> trainer_runtime::waits_now() const {
  const bool is_running = phase_ == phase::running;
  if ((!is_running && phase_ != phase::ending) || votes_.own().stop) return {};
  const bool is_in_a_pass = executor().waits_in_midst();
  const std::size_t waiting = executor().waiting_tasks() + (is_in_a_pass ? 1U : 0U);
  if (waiting != (is_running ? 1U : 0U)) return {};
  const bool step_calls_back = is_running && steps_.last && steps_.last->has_callback();
  if (calls_.is_asking() || tables_.is_asking() || communicator_.calls_back() || step_calls_back) return {};
  if (auto wait = waits_for_step()) return wait;
  return is_running ? communicator_.awaited(is_in_a_pass, deadline()) : std::nullopt;
}

bool trainer_runtime::owes(const msg::peer_wait& theirs) const {
  return theirs.kind == msg::peer_wait::for_step ? steps_.done < theirs.number : communicator_.owes(theirs);
}

void trainer_runtime::waits_for_ever(const std::string& text) {
  fail(step_under_way(), actors::make_failure(actors::errc::bad_input, text));
}

void trainer_runtime::take(const msg::wait_probe& probe) {
  communicator_.check_sender(probe.rank);
  if (cycles_ && !cycles_->take(probe.rank, probe))
    runtime::refuse(fmt::format("an impossible probe of trainer {}", probe.rank));
}

}  // namespace troupe::runtime
