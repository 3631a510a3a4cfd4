#include "actors/trainer/stream_leader.hpp"

#include <algorithm>
#include <utility>

namespace troupe::actors {

/// The last step that begins before the gradient of step `from` is used. If an evaluation, a checkpoint or the end
/// follows a step, no later step begins: the pipeline must be empty.
std::uint64_t stream_leader::forwards_through(std::uint64_t from) const {
  const step_schedule& schedule = work_.schedule;
  const auto empties = [&](std::uint64_t of_step) {
    return schedule.is_last(of_step) || schedule.evaluates_after(of_step) || schedule.saves_after(of_step, false) ||
           work_.votes.last() == of_step;
  };
  std::uint64_t last = from;
  while (last + 1 < from + work_.job().pipeline && !empties(last)) ++last;
  return last;
}

/// Looks up the rows of all steps that begin before the gradient of `step` is used. They lack the updates that are not
/// sent.
void stream_leader::look_up_for(std::uint64_t step) {
  const std::uint64_t last = std::min(forwards_through(step), work_.schedule.total_steps);
  while (work_.coming->looked_up() < last)
    if (!work_.look_up_next(static_cast<std::uint32_t>(work_.coming->looked_up() - work_.step))) return;
}

bool stream_leader::has_rows_for(std::uint64_t step) const { return work_.coming->have_rows(forwards_through(step)); }

void stream_leader::run() {
  work_.begin_step();
  step_work::current_step& now = work_.now;
  now.rows = work_.coming->take_first();
  ++work_.waiting;
  const std::uint64_t step = work_.step;
  stage_passes::executor& order = passes().order();
  if (order.is_updating()) order.update();  // the step before has been applied
  if (order.is_resting()) {
    passes().begin_stream();
    now.begun = step - 1;
  }
  now.has_gradient = now.rows.samples->size > 0;
  const bool had_ended = order.has_ended();
  for (const std::uint64_t last = forwards_through(step); !had_ended && now.begun < last;) {
    const std::uint64_t next = now.begun + 1;
    if (auto error = begin_in_stream(next == step ? now.rows : work_.coming->of(next))) return work_.fail(next, error);
    now.begun = next;
  }
  // The stream ends here: the next step begins only after this one's gradient, or not at all.
  const bool ends = !had_ended && forwards_through(step) + 1 < step + work_.job().pipeline;
  if (ends) order.end_stream();
  advance_passes();
  if (!ends || work_.is_over()) return;
  msg::activation none = activation_of(now.begun);
  none.update = 0;
  links().send_on(std::move(none), {});
}

/// Begins a step in the pipeline. Requires: its rows have come.
caf::error stream_leader::begin_in_stream(step_work::context& next) {
  const std::size_t size = next.samples->size;
  work_.tally.add_rows(next.answers);
  if (size == 0) return passes().add_batch(pass_of(next.step, 0), activation_of(next.step));
  network_input& input = work_.client.input_of(next.step);
  if (auto error = work_.pool_input(next, input)) return error;
  return passes().add_batch(pass_of(next.step, size), activation_of(next.step, next.samples, 0), input.data());
}

/// A step of a stream ends by `passed_back`, not when the passes are through.
bool stream_leader::pass_on() {
  passes().advance();
  return false;
}

}  // namespace troupe::actors
