// A training loop whose network has several parts: it leads the other ones through steps, evaluations and checkpoints.

#include <span>
#include <utility>

#include "actors/failure.hpp"
#include "actors/training_loop.hpp"
#include "model/micro_batch.hpp"

namespace troupe::actors {

// -- set-up -------------------------------------------------------------------

void training_loop::make_parts(std::vector<msg::part_actor> others) {
  parts_.emplace(part_sender(actor_.self, trace_, assigned_, schedule_, std::move(others)));
  parts_->slices.emplace(
      model::slice_place{0, job_.tensor_parallel}, trace_,
      [this](std::uint64_t number, const msg::tensor& share) { parts_->others.send_share(step_, number, share); });
}

void training_loop::make_passes() {
  parts_->passes.emplace(
      place_of_part(job_, 0), *replica_, *parts_->slices, trace_,
      stage_passes::receivers{
          .forward = [this](const auto& batch, const dense_replica::part& part) { send_forward(batch, part); },
          .backward = {},
          .loss = {},
          .full =
              [this](std::uint32_t bucket) {
                if (judge(step_)) send_bucket(bucket);
              },
          .turns = [](const auto&) {},
          .passed_back = [this](const auto&) { parts_->are_through = true; },
      });
}

// -- a step -------------------------------------------------------------------

/// Sends the step's micro-batches through the parts, in place of its own passes; `passed_through_parts` goes on.
void training_loop::pass_through_parts() {
  ++waiting_;
  if (!has_gradient_) {
    tally_.add_absent();
    parts_->others.send_none_to_all(step_);
    for (std::uint32_t i = 0; ends_update() && i < replica_->buckets(); ++i) send_bucket(i);
    return passed_through_parts();
  }
  const model::batch& samples = *computed_.samples;
  network_input& input = client_.input_of(step_);
  if (auto error = pool_input(computed_, input)) return fail(step_, error);
  const bool has_tables = client_.servers() > 0;
  const auto count = static_cast<std::uint32_t>(model::micro_batches_with_samples(samples.size, job_.micro_batches));
  parts_->passes->begin({.step = step_, .size = samples.size, .key = pass_key(step_), .wants_grad_input = has_tables},
                        count, ends_update());
  const std::size_t width = network_.in_features();
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto part = model::micro_batch_of(samples.size, job_.micro_batches, i);
    parts_->passes->add_input(i, input.data() + part.first * width,
                              {samples.classes.empty() ? nullptr : samples.classes.data() + part.first,
                               samples.values.empty() ? nullptr : samples.values.data() + part.first * spec().outputs});
    parts_->others.send_input(step_, input, width, computed_.samples, part, i, true);
  }
  advance_passes();
}

/// To the next stage.
void training_loop::send_forward(const stage_passes::pass& batch, const dense_replica::part& passed) {
  if (batch.size == 0) return parts_->others.send_none(batch.step);
  const auto& whole = job_.streams() ? parts_->batches.at(batch.step) : computed_.samples;
  parts_->others.send_forward(batch.step, whole, passed.samples, static_cast<std::uint32_t>(passed.number),
                              replica_->outputs_of(passed), true);
}

/// Passes what has come, unless a pass waits, which sees it when it goes on.
void training_loop::advance_passes() {
  if (parts_->slices->is_waiting()) return;
  parts_->slices->run(step_, [this] {
    const bool are_through = parts_->passes->advance();
    if (!job_.streams()) parts_->are_through = are_through;
  });
  after_passes();
}

/// Goes on if its own part's passes have ended; not as their work, which would take the next step in.
void training_loop::after_passes() {
  if (parts_->slices->is_waiting() || is_over(phase_)) return;
  if (std::exchange(parts_->are_through, false)) {
    const std::size_t size = computed_.samples->size;
    parts_->batches.erase(step_);
    if (size == 0)
      tally_.add_absent();
    else if (take_step_loss(step_, size, parts_->passes->loss()))
      judge(step_);
    if (!is_over(phase_)) passed_through_parts();
  } else if (parts_->evaluated) {
    const dense_replica::part passed = *std::exchange(parts_->evaluated, std::nullopt);
    if (!judge(step_)) return;
    if (job_.pipeline == 1) return has_outputs(passed.kept->outputs.data());
    parts_->others.send_forward(step_, tested_.current.samples, passed.samples, 0, replica_->outputs_of(passed), false);
  }
}

/// The micro-batches are back, or there are none: their gradient goes to the servers, and the next rows are asked for.
void training_loop::passed_through_parts() {
  send_gradients();
  if (is_over(phase_)) return;
  if (clips_or_skips() && ends_update()) ask_for_norms();
  look_up_through(forwards_through(step_ + 1));
  prepare_next();
  arrived();
}

void training_loop::ask_parts_for_norms() {
  if (!parts_) return;
  parts_->squared_norm = {};
  for (std::uint32_t part = 1; part < job_.parts(); ++part) {
    ++waiting_;
    ask<msg::squared_norm>(
        parts_->others.part(part), parts_->others.number_of(part),
        msg::gradient_norm{trace_.next(step_), assigned_.replica}, [this, part](const msg::squared_norm& share) {
          const auto sum = model::exact_sum::from(share.limbs.as<std::int64_t>());
          if (!sum)
            return fail(step_, make_failure(errc::shape_mismatch, "a norm of trainer {} that is no sum",
                                            assigned_.rank + part));
          parts_->squared_norm.merge(*sum);
          arrived();
        });
  }
}

// -- between steps ------------------------------------------------------------

void training_loop::evaluate_through_parts(const model::batch& samples) {
  ++waiting_;
  // Its own ones, or those that come back from the next stage, and those of the other slices.
  parts_->missing_outputs = job_.tensor_parallel;
  parts_->others.send_input(step_, tested_.input, network_.in_features(), tested_.current.samples, {0, samples.size}, 0,
                            false);
  parts_->slices->run(step_, [this, size = samples.size] {
    parts_->evaluated = replica_->evaluate(step_, size, tested_.input.data(), job_.pipeline == 1);
  });
  after_passes();
}

/// Takes outputs for the current test rows; null: those of another slice, which are the same.
void training_loop::has_outputs(const float* outputs) {
  if (outputs != nullptr) tested_.share.score(*tested_.current.samples, outputs);
  if (--parts_->missing_outputs > 0) return;
  evaluate_next();
  if (!is_over(phase_)) arrived();
}

/// Calls `then` with the states of all parts after this step in `parts_->states`. `ends`: the parts end.
void training_loop::gather_states(bool ends, const std::function<void()>& then) {
  parts_->states.assign(job_.parts(), {});
  parts_->states.front() = replica_->state();
  parts_->pass_seconds = parts_->passes->pass_seconds();
  const auto missing = std::make_shared<std::uint32_t>(parts_->others.count());
  for (std::uint32_t part = 1; part < job_.parts(); ++part) {
    ++waiting_;
    ask<msg::part_state>(parts_->others.part(part), parts_->others.number_of(part),
                         msg::part_query{trace_.next(step_), ends},
                         [this, part, missing, then](msg::part_state& state) {
                           parts_->states[part] = std::move(state.numbers);
                           parts_->pass_seconds += state.pass_seconds;
                           --waiting_;
                           if (--*missing > 0) return;
                           then();
                           advance();
                         });
  }
}

// -- messages of other parts ------------------------------------------------------

caf::error unexpected_part_message(const std::string& trainer) {
  return make_failure(errc::wrong_context, "a message of another part of the network for {}, which expects none",
                      trainer);
}

/// Fails: a message does not fit what this trainer does.
void training_loop::refuse_part_message() { fail(step_, unexpected_part_message(actor_.name)); }

void training_loop::take(msg::partial_sum&& share) {
  if (is_over(phase_)) return;
  const std::uint32_t slice = share.rank - assigned_.rank;
  if (!parts_ || slice >= job_.tensor_parallel) return refuse_part_message();
  if (auto error = parts_->slices->take(slice, std::move(share))) return fail(step_, error);
  after_passes();
}

void training_loop::take(msg::activation_gradient&& grad) {
  if (is_over(phase_)) return;
  if (!parts_) return refuse_part_message();
  const bool is_of_step = phase_ == trainer_phase::reducing && grad.head.step == step_;
  if (auto error = parts_->passes->take(std::move(grad), is_of_step)) return fail(step_, error);
  if (phase_ == trainer_phase::reducing) advance_passes();
}

void training_loop::take(msg::part_outputs&& outputs) {
  if (is_over(phase_)) return;
  const std::uint32_t distance = outputs.rank - assigned_.rank;  // to another slice of this stage, or to the next stage
  if (!parts_ || phase_ != trainer_phase::evaluating || parts_->missing_outputs == 0 || distance == 0 ||
      distance > job_.tensor_parallel)
    return refuse_part_message();
  const std::span<const float> numbers = outputs.numbers.as<float>();
  const std::size_t rows = tested_.current.samples->size;
  if (outputs.numbers.type != msg::dtype::f32 || numbers.size() != rows * spec().outputs)
    return fail(step_, make_failure(errc::shape_mismatch, "{} outputs for {} test rows of {}", numbers.size(), rows,
                                    spec().outputs));
  has_outputs(distance == job_.tensor_parallel ? numbers.data() : nullptr);
}

}  // namespace troupe::actors
