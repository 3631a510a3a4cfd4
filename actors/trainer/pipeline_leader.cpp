#include "actors/trainer/pipeline_leader.hpp"

#include <algorithm>
#include <span>

#include "actors/common/failure.hpp"
#include "actors/trainer/part_state.hpp"
#include "model/micro_batch.hpp"
#include "model/stages.hpp"

namespace troupe::actors {

namespace {

/// Picks the parts beside the first one out of `others`.
pipeline_links::neighbours beside_first(const std::vector<msg::part_actor>& others, const model::job& what) {
  const auto next_stage = others.begin() + (what.tensor_parallel - 1);
  return {.before = {},
          .behind = what.pipeline > 1 ? *next_stage : msg::part_actor(),
          .slices = {others.begin(), next_stage}};
}

/// Returns the targets of some samples of a batch, `width` numbers each, without a copy.
template <class Number>
msg::tensor targets_of(const std::shared_ptr<const model::batch>& whole, const std::vector<Number>& all,
                       model::micro_batch samples, std::size_t width) {
  if (all.empty()) return {};
  return {dtype_of<Number>(), samples.size, width,
          msg::blob(whole, all.data() + samples.first * width, samples.size * width * sizeof(Number))};
}

}  // namespace

// -- set-up -------------------------------------------------------------------

pipeline_leader::pipeline_leader(step_work& work, std::vector<msg::part_actor> others)
    : step_body(work),
      others_(std::move(others)),
      links_(work.actor.self, work.trace, work.assigned.rank, beside_first(others_, work.job())),
      slices_({0, work.job().tensor_parallel}, work.assigned.rank, work.trace,
              [this](std::uint64_t number, const msg::tensor& share) {
                links_.send_beside(msg::partial_sum{.head = {.step = work_.step}, .number = number, .numbers = share});
              }) {}

caf::error pipeline_leader::begin(const msg::trainer_position& from, kernels::device& device) {
  if (auto error = work_.make_replica(from, device, &slices_)) return error;
  passes_.emplace(model::place_of_part(work_.job(), 0), *work_.replica, slices_, links_, work_.trace,
                  stage_passes::receivers{
                      .loss = {},
                      .full =
                          [this](std::uint32_t bucket) {
                            if (work_.check_finite(work_.step)) send_bucket(bucket);
                          },
                      .turns = [](std::uint64_t) {},
                      .passed_back = [this] { are_through_ = true; },
                  });
  return {};
}

// -- a step -------------------------------------------------------------------

/// Sends the step's micro-batches through the parts; `passed_through_parts` is called when they are back.
void pipeline_leader::run() {
  work_.begin_step();
  work_.take_batch();
  ++work_.waiting;
  const std::uint64_t step = work_.step;
  if (!work_.now.has_gradient) {
    work_.tally.add_absent();
    const msg::activation none = activation_of(step);
    links_.send_beside(none);
    links_.send_on(none, {});
    for (std::uint32_t i = 0; work_.ends_update() && i < work_.replica->buckets(); ++i) send_bucket(i);
    return passed_through_parts();
  }
  const auto& samples = work_.now.rows.samples;
  network_input& input = work_.client.input_of(step);
  if (auto error = work_.pool_input(work_.now.rows, input)) return work_.fail(step, error);
  const std::uint32_t all = work_.job().micro_batches;
  const auto count = static_cast<std::uint32_t>(model::micro_batches_with_samples(samples->size, all));
  passes_->begin(pass_of(step, samples->size), count, work_.ends_update());
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto part = model::micro_batch_of(samples->size, all, i);
    const float* const numbers = input.data() + part.first * work_.replica->in_features();
    msg::activation made = activation_of(step, samples, i);
    send_input_beside(made, numbers, part.size);
    if (auto error = passes_->add_input(std::move(made), numbers)) return work_.fail(step, error);
  }
  advance_passes();
}

stage_passes::pass pipeline_leader::pass_of(std::uint64_t of_step, std::size_t size) const {
  return {
      .step = of_step, .size = size, .key = work_.pass_key(of_step), .wants_grad_input = work_.client.servers() > 0};
}

/// The common fields of a step's activations; a batch without samples needs no others.
msg::activation pipeline_leader::activation_of(std::uint64_t of_step) const {
  const step_schedule& schedule = work_.schedule;
  return {.head = {.step = of_step}, .update = schedule.update(of_step), .ends_update = schedule.ends_update(of_step)};
}

/// The activation for a micro-batch, with targets and without numbers.
msg::activation pipeline_leader::activation_of(std::uint64_t of_step, const std::shared_ptr<const model::batch>& of,
                                               std::uint32_t number) const {
  const auto samples = model::micro_batch_of(of->size, work_.job().micro_batches, number);
  msg::activation made = activation_of(of_step);
  made.micro_batch = number;
  made.batch_size = of->size;
  made.classes = targets_of(of, of->classes, samples, 1);
  made.values = targets_of(of, of->values, samples, work_.spec().outputs);
  return made;
}

/// Sends the other slices of its stage a copy of an input, whose memory is reused before they have ended.
void pipeline_leader::send_input_beside(msg::activation what, const float* numbers, std::size_t samples) {
  if (work_.job().tensor_parallel == 1) return;
  msg::tensor_buffer copy(samples, work_.replica->in_features());
  std::copy_n(numbers, copy.size(), copy.data());
  what.numbers = std::move(copy).freeze();
  links_.send_beside(what);
}

/// Passes the micro-batches that have come. Does nothing while a pass waits: it handles them when it resumes.
void pipeline_leader::advance_passes() {
  if (slices_.is_waiting()) return;
  slices_.run(work_.step, [this] {
    if (pass_on()) are_through_ = true;
  });
  after_passes();
}

/// Continues after this part's passes, outside of their work, which would otherwise include the next step.
void pipeline_leader::after_passes() {
  if (slices_.is_waiting() || work_.is_over()) return;
  if (std::exchange(are_through_, false)) {
    const std::size_t size = work_.now.rows.samples->size;
    if (size == 0)
      work_.tally.add_absent();
    else if (work_.take_step_loss(work_.step, size, passes_->order().loss()))
      work_.check_finite(work_.step);
    if (!work_.is_over()) passed_through_parts();
  } else if (evaluated_) {
    const dense_replica::part passed = *std::exchange(evaluated_, std::nullopt);
    if (!work_.check_finite(work_.step)) return;
    if (work_.job().pipeline == 1) return has_outputs(passed.kept->outputs.data());
    links_.send_on(tested_activation(), work_.replica->outputs_of(passed));
  }
}

/// The micro-batches are back, or the batch has no samples: sends their gradient to the servers and looks up the next
/// rows.
void pipeline_leader::passed_through_parts() {
  work_.send_gradients();
  if (work_.is_over()) return;
  if (work_.clips_or_skips() && work_.ends_update()) {
    ask_parts_for_norms();
    work_.ask_for_norms();
  }
  look_up_for(work_.step + 1);
  work_.prepare_next();
  work_.arrived();
}

void pipeline_leader::ask_parts_for_norms() {
  squared_norm_ = {};
  for (std::uint32_t part = 1; part < work_.job().parts(); ++part) {
    ++work_.waiting;
    ask_part<msg::squared_norm>(
        part, msg::gradient_norm{work_.trace.next(work_.step), work_.assigned.replica},
        [this, part](const msg::squared_norm& share) {
          const auto sum = model::exact_sum::from(share.limbs.as<std::int64_t>());
          if (!sum)
            return work_.fail(work_.step, make_failure(errc::shape_mismatch, "a norm of trainer {} that is not a sum",
                                                       work_.assigned.rank + part));
          squared_norm_.merge(*sum);
          work_.arrived();
        });
  }
}

model::exact_sum pipeline_leader::squared_norm() {
  model::exact_sum of_all = step_body::squared_norm();
  of_all.merge(squared_norm_);
  return of_all;
}

void pipeline_leader::decide(bool applies, float factor) {
  for (std::uint32_t part = 1; part < work_.job().parts(); ++part)
    ask_part<msg::committed>(part,
                             msg::optimizer_step{work_.trace.next(work_.step), work_.assigned.replica, applies, factor},
                             [](const msg::committed&) {});
  step_body::decide(applies, factor);
}

// -- between steps ------------------------------------------------------------

/// The activation for the current test rows, without numbers.
msg::activation pipeline_leader::tested_activation() const {
  return {.head = {.step = work_.step}, .trains = false, .batch_size = work_.evaluation.samples().size};
}

void pipeline_leader::evaluate(const std::function<void()>& then) {
  ++work_.waiting;
  scored_ = then;
  // Outputs of this part, or those that the next stage sends back, and those of the other slices.
  missing_outputs_ = work_.job().tensor_parallel;
  const float* const input = work_.evaluation.input().data();
  const std::size_t size = work_.evaluation.samples().size;
  send_input_beside(tested_activation(), input, size);
  slices_.run(work_.step, [this, size, input] {
    evaluated_ = work_.replica->evaluate(work_.step, size, input, work_.job().pipeline == 1);
  });
  after_passes();
}

/// Handles outputs for the current test rows; null: another slice's, which are the same.
void pipeline_leader::has_outputs(const float* outputs) {
  if (outputs != nullptr) work_.evaluation.score(outputs);
  if (--missing_outputs_ > 0) return;
  std::exchange(scored_, nullptr)();
  if (!work_.is_over()) work_.arrived();
}

/// Fills `states_` with the states of all parts, then calls `then`.
void pipeline_leader::gather(bool ends, const std::function<void()>& then) {
  const std::uint32_t parts = work_.job().parts();
  states_.assign(parts, {});
  states_.front() = work_.replica->state();
  pass_seconds_ = passes_->pass_seconds();
  const auto missing = std::make_shared<std::uint32_t>(parts - 1);
  for (std::uint32_t part = 1; part < parts; ++part) {
    ++work_.waiting;
    ask_part<msg::part_state>(part, msg::part_query{work_.trace.next(work_.step), ends},
                              [this, part, missing, then](msg::part_state& state) {
                                states_[part] = std::move(state.numbers);
                                pass_seconds_ += state.pass_seconds;
                                --work_.waiting;
                                if (--*missing > 0) return;
                                then();
                                work_.advance();
                              });
  }
}

std::vector<msg::tensor> pipeline_leader::state() {
  const auto buffers = static_cast<std::size_t>(model::state_buffers(work_.job().dense_optimizer));
  return joined_states(model::parts_of_network(work_.job(), work_.spec()), std::exchange(states_, {}), buffers);
}

step_body::outcome pipeline_leader::end() {
  const auto of_optimizer = static_cast<std::size_t>(model::state_buffers(work_.job().dense_optimizer));
  auto all = state();
  outcome made{.weights = std::move(all.front()),
               .buffers = {},
               .step_seconds = passes_->batch_seconds(),
               .pass_seconds = pass_seconds_};
  if (all.size() > 1 + of_optimizer) made.buffers = std::move(all.back());
  return made;
}

// -- messages of other parts ------------------------------------------------------

caf::error pipeline_leader::take(msg::partial_sum&& share) {
  if (auto error = slices_.take(std::move(share))) return error;
  after_passes();
  return {};
}

caf::error pipeline_leader::take(msg::activation_gradient&& grad) {
  if (auto error = passes_->take(std::move(grad))) return error;
  if (work_.phase == trainer_phase::reducing) advance_passes();
  return {};
}

caf::error pipeline_leader::take(msg::part_outputs&& outputs) {
  const std::uint32_t slices = work_.job().tensor_parallel;
  const std::uint32_t distance = outputs.rank - work_.assigned.rank;  // to another slice, or to the next stage
  if (work_.phase != trainer_phase::evaluating || missing_outputs_ == 0 || distance == 0 || distance > slices)
    return work_.actor.refusal();
  const std::span<const float> numbers = outputs.numbers.as<float>();
  const std::size_t rows = work_.evaluation.samples().size;
  const std::size_t width = work_.spec().outputs;
  if (outputs.numbers.type != dtype::f32 || numbers.size() != rows * width)
    return make_failure(errc::shape_mismatch, "{} outputs for {} test rows of {}", numbers.size(), rows, width);
  has_outputs(distance == slices ? numbers.data() : nullptr);
  return {};
}

// -- status -------------------------------------------------------------------------

/// Adds this part's micro-batches, and what they wait for.
void pipeline_leader::report(msg::actor_status& now) const {
  const stage_passes& mine = *passes_;
  const bool waits_for_slices = slices_.is_waiting();
  if (work_.phase == trainer_phase::reducing && !mine.order().is_through()) {
    now.phase = "passing";
    if (!mine.order().is_forward_next() && !waits_for_slices) mine.report_lacking(work_.step, now);
  }
  if (waits_for_slices) slices_.report_missing(work_.step, now);
  if (work_.phase == trainer_phase::evaluating && now.waits.empty())
    now.waits.push_back({now.name, "the outputs", work_.step,
                         fmt::format("trainer {}", work_.assigned.rank + work_.job().tensor_parallel)});
  mine.report_in_flight(work_.job().micro_batches, now);
}

}  // namespace troupe::actors
