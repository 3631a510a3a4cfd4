// A leader whose steps overlap in the pipeline: it begins the next steps before it takes a step's gradient, as many as
// there are stages. A step of the trainer is that of its gradient.

#include "actors/failure.hpp"
#include "actors/training_loop.hpp"

namespace troupe::actors {

/// The last step that begins before the gradient of step `from` is taken. None begins beyond a step that an evaluation,
/// a checkpoint or the end follows, for which the pipeline must be empty.
std::uint64_t training_loop::forwards_through(std::uint64_t from) const {
  std::uint64_t last = from;
  if (!job_.streams()) return last;
  const auto empties = [&](std::uint64_t of_step) {
    return schedule_.is_last(of_step) || schedule_.evaluates_after(of_step) || schedule_.saves_after(of_step, false) ||
           parts_->stops_after == of_step;
  };
  while (last + 1 < from + job_.pipeline && !empties(last)) ++last;
  return last;
}

void training_loop::stream_through_parts() {
  ++waiting_;
  stage_passes& passes = *parts_->passes;
  if (!passes.is_under_way()) {
    passes.begin_stream();
    parts_->forwarded = step_ - 1;
  }
  passes.update();  // the step before has been applied
  has_gradient_ = computed_.samples->size > 0;
  const bool had_ended = passes.has_ended();
  for (const std::uint64_t last = forwards_through(step_); !had_ended && parts_->forwarded < last;) {
    const std::uint64_t next = parts_->forwarded + 1;
    if (auto error = begin_in_stream(next == step_ ? computed_ : coming_->of(next))) return fail(next, error);
    parts_->forwarded = next;
  }
  // So that it ends: the next step begins only after this one's gradient, or not at all.
  const bool ends = !had_ended && forwards_through(step_) + 1 < step_ + job_.pipeline;
  if (ends) passes.end_stream();
  advance_passes();
  if (!ends || is_over(phase_)) return;
  parts_->others.send_end_of_stream(parts_->forwarded);
}

/// Takes a step into the pipeline, whose rows are here.
caf::error training_loop::begin_in_stream(context& next) {
  const std::shared_ptr<const model::batch>& samples = next.samples;
  tally_.add_rows(next.answers);
  stage_passes& passes = *parts_->passes;
  const auto number = passes.add_batch({.step = next.step,
                                        .size = samples->size,
                                        .key = pass_key(next.step),
                                        .wants_grad_input = client_.servers() > 0});
  parts_->batches[next.step] = samples;
  if (samples->size == 0) return {};
  network_input& input = client_.input_of(next.step);
  if (auto error = pool_input(next, input)) return error;
  passes.add_input(number, input.data(), {});
  return {};
}

/// Some rank wants the run to stop, or a checkpoint: all agree on it. Where steps overlap, those that have begun are
/// taken first.
void training_loop::take_wishes(bool stop, bool save) {
  wishes_.saving = wishes_.saving || save;
  if (!job_.streams())
    wishes_.stopping = wishes_.stopping || stop;
  else if (stop && !parts_->stops_after)
    parts_->stops_after = parts_->forwarded;
}

}  // namespace troupe::actors
