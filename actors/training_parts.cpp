// A training loop whose network has several parts: it leads the other ones through steps, evaluations and checkpoints.

#include <algorithm>
#include <span>
#include <utility>

#include "actors/failure.hpp"
#include "actors/training_loop.hpp"
#include "model/micro_batch.hpp"
#include "model/stages.hpp"

namespace troupe::actors {

// -- set-up -------------------------------------------------------------------

void training_loop::make_parts(std::vector<msg::part_actor> others) {
  const auto beside = others.begin() + (job().tensor_parallel - 1);
  part_links links(
      actor_.self, trace_, assigned_.rank,
      {.before = {}, .behind = job().pipeline > 1 ? *beside : msg::part_actor(), .slices = {others.begin(), beside}});
  parts_.emplace(std::move(others), std::move(links));
  parts_->slices.emplace(
      model::slice_place{0, job().tensor_parallel}, assigned_.rank, trace_,
      [this](std::uint64_t number, const msg::tensor& share) {
        parts_->links.send_beside(msg::partial_sum{.head = {.step = step_}, .number = number, .numbers = share});
      });
}

void training_loop::make_passes() {
  parts_->passes.emplace(model::place_of_part(job(), 0), *replica_, *parts_->slices, parts_->links, trace_,
                         stage_passes::receivers{
                             .loss = {},
                             .full =
                                 [this](std::uint32_t bucket) {
                                   if (judge(step_)) send_bucket(bucket);
                                 },
                             .turns = [](std::uint64_t) {},
                             .passed_back = [this] { parts_->are_through = true; },
                         });
}

// -- a step -------------------------------------------------------------------

/// Sends the step's micro-batches through the parts, in place of its own passes; `passed_through_parts` goes on.
void training_loop::pass_through_parts() {
  ++waiting_;
  if (!now_.has_gradient) {
    tally_.add_absent();
    const msg::activation none = activation_of(step_);
    parts_->links.send_beside(none);
    parts_->links.send_on(none, {});
    for (std::uint32_t i = 0; ends_update() && i < replica_->buckets(); ++i) send_bucket(i);
    return passed_through_parts();
  }
  const std::size_t size = now_.rows.samples->size;
  network_input& input = client_.input_of(step_);
  if (auto error = pool_input(now_.rows, input)) return fail(step_, error);
  const auto count = static_cast<std::uint32_t>(model::micro_batches_with_samples(size, job().micro_batches));
  parts_->passes->begin(pass_of(step_, size), count, ends_update());
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto part = model::micro_batch_of(size, job().micro_batches, i);
    const float* const numbers = input.data() + part.first * replica_->in_features();
    msg::activation made = activation_of(step_, now_.rows.samples, i);
    send_input_beside(made, numbers, part.size);
    if (auto error = parts_->passes->add_input(std::move(made), numbers)) return fail(step_, error);
  }
  advance_passes();
}

stage_passes::pass training_loop::pass_of(std::uint64_t of_step, std::size_t size) const {
  return {.step = of_step, .size = size, .key = pass_key(of_step), .wants_grad_input = client_.servers() > 0};
}

/// What a step's activations have in common; for a batch without samples it is all.
msg::activation training_loop::activation_of(std::uint64_t of_step) const {
  return {
      .head = {.step = of_step}, .update = schedule_.update(of_step), .ends_update = schedule_.ends_update(of_step)};
}

namespace {

/// Returns some of a batch's targets without a copy: of each sample `width` numbers.
template <class Number>
msg::tensor targets_of(const std::shared_ptr<const model::batch>& whole, const std::vector<Number>& all,
                       model::micro_batch samples, std::size_t width) {
  if (all.empty()) return {};
  return {dtype_of<Number>(), samples.size, width,
          msg::blob(whole, all.data() + samples.first * width, samples.size * width * sizeof(Number))};
}

}  // namespace

/// The activation for a micro-batch, with targets and without numbers.
msg::activation training_loop::activation_of(std::uint64_t of_step, const std::shared_ptr<const model::batch>& of,
                                             std::uint32_t number) const {
  const auto samples = model::micro_batch_of(of->size, job().micro_batches, number);
  msg::activation made = activation_of(of_step);
  made.micro_batch = number;
  made.batch_size = of->size;
  made.classes = targets_of(of, of->classes, samples, 1);
  made.values = targets_of(of, of->values, samples, spec().outputs);
  return made;
}

/// Sends the other slices of its stage a copy of an input, which is used again before they have ended.
void training_loop::send_input_beside(msg::activation what, const float* numbers, std::size_t samples) {
  if (job().tensor_parallel == 1) return;
  msg::tensor_buffer copy(samples, replica_->in_features());
  std::copy_n(numbers, copy.size(), copy.data());
  what.numbers = std::move(copy).freeze();
  parts_->links.send_beside(what);
}

/// Passes what has come, unless a pass waits, which sees it when it goes on.
void training_loop::advance_passes() {
  if (parts_->slices->is_waiting()) return;
  parts_->slices->run(step_, [this] {
    const bool are_through = parts_->passes->advance();
    if (!job().streams()) parts_->are_through = are_through;
  });
  after_passes();
}

/// Goes on if its own part's passes have ended; not as their work, which would take the next step in.
void training_loop::after_passes() {
  if (parts_->slices->is_waiting() || is_over(phase_)) return;
  if (std::exchange(parts_->are_through, false)) {
    const std::size_t size = now_.rows.samples->size;
    if (size == 0)
      tally_.add_absent();
    else if (take_step_loss(step_, size, parts_->passes->order().loss()))
      judge(step_);
    if (!is_over(phase_)) passed_through_parts();
  } else if (parts_->evaluated) {
    const dense_replica::part passed = *std::exchange(parts_->evaluated, std::nullopt);
    if (!judge(step_)) return;
    if (job().pipeline == 1) return has_outputs(passed.kept->outputs.data());
    parts_->links.send_on(tested_activation(), replica_->outputs_of(passed));
  }
}

/// The micro-batches are back, or the batch has no samples: their gradient goes to the servers, and the next rows are
/// asked for.
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
  for (std::uint32_t part = 1; part < job().parts(); ++part) {
    ++waiting_;
    ask_part<msg::squared_norm>(
        part, msg::gradient_norm{trace_.next(step_), assigned_.replica}, [this, part](const msg::squared_norm& share) {
          const auto sum = model::exact_sum::from(share.limbs.as<std::int64_t>());
          if (!sum)
            return fail(step_, make_failure(errc::shape_mismatch, "a norm of trainer {} that is no sum",
                                            assigned_.rank + part));
          parts_->squared_norm.merge(*sum);
          arrived();
        });
  }
}

// -- steps that overlap --------------------------------------------------------

// The leader begins the next steps before it takes a step's gradient, as many as there are stages. A step of the
// trainer is that of its gradient.

/// The last step that begins before the gradient of step `from` is taken. None begins beyond a step that an evaluation,
/// a checkpoint or the end follows, for which the pipeline must be empty.
std::uint64_t training_loop::forwards_through(std::uint64_t from) const {
  std::uint64_t last = from;
  if (!job().streams()) return last;
  const auto empties = [&](std::uint64_t of_step) {
    return schedule_.is_last(of_step) || schedule_.evaluates_after(of_step) || schedule_.saves_after(of_step, false) ||
           parts_->stops_after == of_step;
  };
  while (last + 1 < from + job().pipeline && !empties(last)) ++last;
  return last;
}

void training_loop::stream_through_parts() {
  ++waiting_;
  stage_passes::executor& order = parts_->passes->order();
  if (order.is_updating()) order.update();  // the step before has been applied
  if (order.is_resting()) {
    parts_->passes->begin_stream();
    parts_->forwarded = step_ - 1;
  }
  now_.has_gradient = now_.rows.samples->size > 0;
  const bool had_ended = order.has_ended();
  for (const std::uint64_t last = forwards_through(step_); !had_ended && parts_->forwarded < last;) {
    const std::uint64_t next = parts_->forwarded + 1;
    if (auto error = begin_in_stream(next == step_ ? now_.rows : coming_->of(next))) return fail(next, error);
    parts_->forwarded = next;
  }
  // So that it ends: the next step begins only after this one's gradient, or not at all.
  const bool ends = !had_ended && forwards_through(step_) + 1 < step_ + job().pipeline;
  if (ends) order.end_stream();
  advance_passes();
  if (!ends || is_over(phase_)) return;
  msg::activation none = activation_of(parts_->forwarded);
  none.update = 0;
  parts_->links.send_on(std::move(none), {});
}

/// Takes a step into the pipeline, whose rows are here.
caf::error training_loop::begin_in_stream(context& next) {
  const std::size_t size = next.samples->size;
  tally_.add_rows(next.answers);
  if (size == 0) return parts_->passes->add_batch(pass_of(next.step, 0), activation_of(next.step));
  network_input& input = client_.input_of(next.step);
  if (auto error = pool_input(next, input)) return error;
  return parts_->passes->add_batch(pass_of(next.step, size), activation_of(next.step, next.samples, 0), input.data());
}

/// Counts the votes of all ranks. Where steps overlap, those that have begun are taken before the run ends.
void training_loop::count_votes(const step_votes::vote& all) {
  votes_.count({.stop = all.stop && !job().streams(), .save = all.save});
  if (all.stop && job().streams() && !parts_->stops_after) parts_->stops_after = parts_->forwarded;
}

// -- between steps ------------------------------------------------------------

/// The activation for the current test rows, without numbers.
msg::activation training_loop::tested_activation() const {
  return {.head = {.step = step_}, .trains = false, .batch_size = tested_.current.samples->size};
}

void training_loop::evaluate_through_parts(const model::batch& samples) {
  ++waiting_;
  // Its own ones, or those that come back from the next stage, and those of the other slices.
  parts_->missing_outputs = job().tensor_parallel;
  send_input_beside(tested_activation(), tested_.input.data(), samples.size);
  parts_->slices->run(step_, [this, size = samples.size] {
    parts_->evaluated = replica_->evaluate(step_, size, tested_.input.data(), job().pipeline == 1);
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
  parts_->states.assign(job().parts(), {});
  parts_->states.front() = replica_->state();
  parts_->pass_seconds = parts_->passes->pass_seconds();
  const auto missing = std::make_shared<std::uint32_t>(job().parts() - 1);
  for (std::uint32_t part = 1; part < job().parts(); ++part) {
    ++waiting_;
    ask_part<msg::part_state>(part, msg::part_query{trace_.next(step_), ends},
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

void training_loop::take(msg::partial_sum&& share) {
  if (is_over(phase_)) return;
  if (!parts_) return fail(step_, refusal());
  if (auto error = parts_->slices->take(std::move(share))) return fail(step_, error);
  after_passes();
}

void training_loop::take(msg::activation_gradient&& grad) {
  if (is_over(phase_)) return;
  if (!parts_) return fail(step_, refusal());
  if (auto error = parts_->passes->take(std::move(grad))) return fail(step_, error);
  if (phase_ == trainer_phase::reducing) advance_passes();
}

void training_loop::take(msg::part_outputs&& outputs) {
  if (is_over(phase_)) return;
  const std::uint32_t distance = outputs.rank - assigned_.rank;  // to another slice of this stage, or to the next stage
  if (!parts_ || phase_ != trainer_phase::evaluating || parts_->missing_outputs == 0 || distance == 0 ||
      distance > job().tensor_parallel)
    return fail(step_, refusal());
  const std::span<const float> numbers = outputs.numbers.as<float>();
  const std::size_t rows = tested_.current.samples->size;
  if (outputs.numbers.type != dtype::f32 || numbers.size() != rows * spec().outputs)
    return fail(step_, make_failure(errc::shape_mismatch, "{} outputs for {} test rows of {}", numbers.size(), rows,
                                    spec().outputs));
  has_outputs(distance == job().tensor_parallel ? numbers.data() : nullptr);
}

}  // namespace troupe::actors
