#include "actors/trainer/stage_passes.hpp"

#include <fmt/format.h>

#include "actors/common/failure.hpp"
#include "actors/common/faults.hpp"

namespace troupe::actors {

namespace {

model::loss_targets loss_targets_of(const msg::activation& input) {
  return {input.classes.rows == 0 ? nullptr : input.classes.as<std::int64_t>().data(),
          input.values.rows == 0 ? nullptr : input.values.as<float>().data()};
}

}  // namespace

// -- inputs and gradients ------------------------------------------------------------------------

void stage_passes::begin(const pass& batch, std::uint32_t count, bool last) {
  executor_.begin(batch.step, count, {.batch = batch});
  replica_.begin_parts(batch);
  batch_ = batch;
  last_ = last;
}

void stage_passes::begin_stream() {
  executor_.begin_stream();
  last_ = true;
}

caf::error stage_passes::add_input(msg::activation&& input, const float* numbers) {
  const auto one = executor_.awaiting_input(input.head.step, input.micro_batch);
  if (!one || input.batch_size != batch_.size)
    return make_failure(errc::wrong_context, "micro-batch {} of a batch of {} twice, or in a batch of {}",
                        input.micro_batch, input.batch_size, batch_.size);
  keep(**one, std::move(input), numbers);
  return {};
}

caf::error stage_passes::add_batch(const pass& batch, msg::activation&& input, const float* numbers) {
  const auto one = executor_.add(batch.step, batch.size > 0, {.batch = batch});
  if (!one) return make_failure(errc::wrong_context, one.error().message);
  keep(**one, std::move(input), numbers);
  return {};
}

void stage_passes::keep(entry& one, msg::activation&& input, const float* numbers) {
  one.kept.input = std::move(input);
  one.kept.numbers = numbers != nullptr ? numbers : one.kept.input.numbers.as<float>().data();
  executor_.take_input(one);
}

caf::error stage_passes::take(msg::activation_gradient&& grad) {
  const auto one = executor_.awaiting_gradient(grad.head.step, grad.micro_batch);
  if (!one) return make_failure(errc::wrong_context, one.error().message);
  kept& its = (*one)->kept;
  const std::size_t size = its.in_flight->samples.size;
  const msg::tensor& numbers = grad.numbers;
  if (numbers.type != dtype::f32 || numbers.rows != size || numbers.cols != replica_.out_features() ||
      !numbers.consistent())
    return make_failure(errc::shape_mismatch, "micro-batch {}: a gradient of {} x {} for outputs of {} x {}",
                        grad.micro_batch, numbers.rows, numbers.cols, size, replica_.out_features());
  its.grad = std::move(grad.numbers);
  (*one)->loss = grad.loss;
  executor_.take_gradient(**one);
  return {};
}

// -- the passes ------------------------------------------------------------------------

bool stage_passes::advance() {
  while (executor_.can_pass()) pass_next();
  return executor_.is_resting();
}

void stage_passes::pass_next() {
  const clock::time_point begin = clock::now();
  const double waited_before = slices_.waited();
  if (!began_) began_ = begin;
  const bool is_forward = executor_.is_forward_next();
  if (auto* wrong = faults()) wrong->passing(executor_.place().stage, is_forward);
  entry& one = executor_.begin_pass();
  is_forward ? pass_forward(one) : pass_back(one);
  const clock::time_point end = clock::now();
  pass_seconds_ += std::chrono::duration<double>(end - begin).count() - (slices_.waited() - waited_before);
  if (!executor_.is_through()) return;
  batch_seconds_ += std::chrono::duration<double>(end - *std::exchange(began_, std::nullopt)).count();
}

void stage_passes::pass_forward(entry& one) {
  kept& its = one.kept;
  const bool is_last = executor_.place().is_last();
  if (one.has_samples) {
    const actor_trace::range working(trace_, trace::range_name::forward, one.step);
    executor_.keep_weights(one, [this] { return replica_.copy_of_weights(); });
    its.in_flight = replica_.forward(its.batch, one.number, its.numbers, one.weights);
    if (is_last) one.loss = replica_.loss(*its.in_flight, loss_targets_of(its.input));
  }
  executor_.end_pass(one);
  if (!is_last)
    links_.send_on(its.input, one.has_samples ? replica_.outputs_of(*its.in_flight) : msg::tensor());
  else if (to_.loss && one.has_samples)
    to_.loss(one.loss);
}

/// A batch of a stream is the only one of its optimizer step.
void stage_passes::pass_back(entry& one) {
  const bool streams = executor_.streams();
  const bool ends_batch = streams || executor_.is_last_back();
  if (streams) {
    to_.turns(one.step);
    replica_.open(one.step);
    if (one.has_samples) replica_.begin_parts(one.kept.batch);
  }
  if (one.has_samples) {
    backward(one, ends_batch && last_);
    if (ends_batch) replica_.end_parts();
  } else {
    for (std::uint32_t i = 0; i < replica_.buckets(); ++i) to_.full(i);
  }
  executor_.end_pass(one);
  if (streams) to_.passed_back();
}

void stage_passes::backward(entry& one, bool last) {
  const actor_trace::range working(trace_, trace::range_name::backward, one.step);
  const dense_replica::part& part = *one.kept.in_flight;
  const bool is_last = executor_.place().is_last();
  const float* const grad_outputs = is_last ? part.kept->outputs.data() : one.kept.grad.as<float>().data();
  if (executor_.place().is_first()) {
    replica_.backward_inputs(part, grad_outputs, replica_.grad_input_of(part));
  } else {
    msg::tensor_buffer grad(part.samples.size, replica_.in_features());
    replica_.backward_inputs(part, grad_outputs, grad.data());
    links_.send_back(msg::activation_gradient{
        .head = {.step = one.step}, .micro_batch = one.number, .numbers = std::move(grad).freeze(), .loss = one.loss});
  }
  replica_.backward_parameters(part, grad_outputs, last, to_.full);
}

// -- status ------------------------------------------------------------------------------

void stage_passes::report_lacking(std::uint64_t step, msg::actor_status& now) const {
  const model::stage_place& at = executor_.place();
  auto [what, of_step] = executor_.lacks(step);
  const std::uint32_t on =
      executor_.is_forward_next() ? links_.rank() - at.ranks_from_input() : links_.rank() + at.slice.slices;
  now.waits.push_back({now.name, std::move(what), of_step, fmt::format("trainer {}", on)});
}

void stage_passes::report_in_flight(std::uint32_t micro_batches, msg::actor_status& now) const {
  const model::stage_place& at = executor_.place();
  const bool streams = at.schedule == pipeline_schedule::pipedream;
  now.queues.push_back(
      {fmt::format("{} under way, at most {}", streams ? "batches with their weights" : "micro-batches",
                   model::in_flight_max(at, streams ? at.stages : micro_batches)),
       executor_.in_flight(), 0, 0});
}

}  // namespace troupe::actors
