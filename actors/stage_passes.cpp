#include "actors/stage_passes.hpp"

#include <fmt/format.h>

#include <utility>

#include "actors/failure.hpp"
#include "actors/faults.hpp"
#include "base/assert.hpp"

namespace troupe::actors {

void tell_lacking(const stage_passes& of, std::uint32_t before, std::uint32_t behind, std::uint64_t step,
                  msg::actor_status& now) {
  msg::wait_status wait = of.lacking(step);
  wait.who = now.name;
  wait.on = fmt::format("trainer {}", of.waits_for_input() ? before : behind);
  now.waits.push_back(std::move(wait));
}

void stage_passes::restart(std::uint32_t count, bool streams) {
  TROUPE_ASSERT(!is_under_way() && count > 0);
  streams_ = streams;
  count_ = count;
  forward_ = back_ = 0;
  loss_ = 0;
  all_.clear();
}

void stage_passes::begin(const pass& batch, std::uint32_t count, bool last) {
  restart(count, false);
  replica_.begin_parts(batch);
  last_ = last;
  for (std::uint32_t i = 0; i < count; ++i) all_.push_back({batch, i});
}

void stage_passes::begin_stream() {
  restart(endless, true);
  version_.reset();
}

std::uint32_t stage_passes::add_batch(const pass& batch) {
  TROUPE_ASSERT(streams_ && !has_ended());
  all_.push_back({batch, 0});
  return back_ + static_cast<std::uint32_t>(all_.size()) - 1;
}

msg::wait_status stage_passes::lacking(std::uint64_t now) const {
  msg::wait_status wait;
  wait.step = now;
  if (!streams_) {
    wait.what = fmt::format("{}micro-batch {}", waits_for_input() ? "" : "the gradient of ", next());
  } else if (!waits_for_input()) {
    wait.what = "the gradient of the batch";
    wait.step = step_back();
  } else {
    wait.what = "the batch";
    if (!all_.empty()) wait.step = all_.back().batch.step + 1;
  }
  return wait;
}

void stage_passes::end_stream() {
  TROUPE_ASSERT(streams_ && !has_ended());
  count_ = back_ + static_cast<std::uint32_t>(all_.size());
}

const stage_passes::micro_batch* stage_passes::find(std::uint32_t number) const {
  return number >= back_ && number - back_ < all_.size() ? &all_[number - back_] : nullptr;
}

std::uint32_t stage_passes::number_of(std::uint64_t step) const {
  const std::uint64_t first = step_back();
  return step >= first && step - first < all_.size() ? back_ + static_cast<std::uint32_t>(step - first) : endless;
}

bool stage_passes::lacks_input(std::uint32_t number) const {
  if (number >= count_ || number < forward_) return false;
  const micro_batch* const one = find(number);
  return one == nullptr || (one->input == nullptr && one->batch.size > 0);
}

bool stage_passes::lacks_gradient(std::uint32_t number) const {
  const micro_batch* const one = find(number);
  return number < forward_ && one != nullptr && one->alive && !one->grad;
}

std::size_t stage_passes::samples_of(std::uint32_t number) const { return find(number)->alive->samples.size; }

void stage_passes::add_input(std::uint32_t number, const float* input, const model::loss_targets& targets,
                             std::vector<msg::tensor> keeps) {
  TROUPE_ASSERT(lacks_input(number));
  micro_batch& one = at(number);
  one.input = input;
  one.targets = targets;
  one.keeps = std::move(keeps);
}

caf::error stage_passes::take(msg::activation_gradient&& grad, bool is_of_step) {
  const bool streams = at_.schedule == model::pipeline_schedule::pipedream;
  const std::uint32_t number = streams ? number_of(grad.head.step) : grad.micro_batch;
  if (!(streams || is_of_step) || !lacks_gradient(number))
    return make_failure(errc::wrong_context, "the gradient of micro-batch {} of step {}, which is not under way",
                        grad.micro_batch, grad.head.step);
  const std::size_t size = samples_of(number);
  const msg::tensor& numbers = grad.numbers;
  if (numbers.type != msg::dtype::f32 || numbers.rows != size || numbers.cols != replica_.out_features() ||
      !numbers.consistent())
    return make_failure(errc::shape_mismatch, "micro-batch {}: a gradient of {} x {} for outputs of {} x {}",
                        grad.micro_batch, numbers.rows, numbers.cols, size, replica_.out_features());
  at(number).grad = std::move(grad.numbers);
  at(number).loss = grad.loss;
  return {};
}

bool stage_passes::advance() {
  while (is_under_way()) {
    if (is_updating_) return false;
    const bool lacks = waits_for_input() ? lacks_input(forward_) : !at_.is_last() && lacks_gradient(back_);
    if (lacks) return false;
    pass_next();
  }
  if (!streams_) replica_.end_parts();
  return !is_updating_;
}

void stage_passes::pass_next() {
  const clock::time_point begin = clock::now();
  const double waited_before = slices_.waited();
  if (forward_ == 0) began_ = begin;
  if (auto* wrong = faults()) wrong->passing(at_.stage, waits_for_input());
  if (waits_for_input())
    pass_forward(at(forward_));
  else if (streams_)
    pass_back_in_stream(all_.front());
  else
    pass_back(all_.front());
  const clock::time_point end = clock::now();
  pass_seconds_ += std::chrono::duration<double>(end - begin).count() - (slices_.waited() - waited_before);
  if (!is_under_way()) batch_seconds_ += std::chrono::duration<double>(end - began_).count();
}

void stage_passes::pass_forward(micro_batch& one) {
  ++forward_;
  TROUPE_ASSERT(alive() <= alive_max(at_, count_));
  if (one.batch.size == 0) {
    if (!at_.is_last()) to_.forward(one.batch, {});
    return;
  }
  {
    const actor_trace::range working(trace_, trace::range_name::forward, one.batch.step);
    if (streams_ && alive_max(at_, count_) > 1 && !version_) version_ = replica_.copy_of_weights();
    one.updates = back_;
    one.alive = replica_.forward(one.batch, one.number, one.input, version_);
    if (at_.is_last()) one.loss = replica_.loss(*one.alive, one.targets);
  }
  if (!at_.is_last())
    to_.forward(one.batch, *one.alive);
  else if (to_.loss)
    to_.loss(one.loss);
}

void stage_passes::pass_back(micro_batch& one) {
  loss_ += one.loss;
  backward(one, last_ && back_ + 1 == count_);
  ++back_;
  all_.pop_front();
}

/// Passes a whole batch back, the only one of its optimizer step.
void stage_passes::pass_back_in_stream(micro_batch& one) {
  to_.turns(one.batch);
  replica_.open(one.batch.step);
  loss_ = one.loss;
  if (one.batch.size > 0) {
    replica_.begin_parts(one.batch);
    backward(one, true);
    replica_.end_parts();
    staleness_ = std::max(staleness_, back_ - one.updates);
    TROUPE_ASSERT(back_ - one.updates < at_.stages - at_.stage);
  } else {
    for (std::uint32_t i = 0; i < replica_.buckets(); ++i) to_.full(i);
  }
  const pass batch = one.batch;
  version_.reset();
  is_updating_ = true;
  ++back_;
  all_.pop_front();
  to_.passed_back(batch);
}

void stage_passes::backward(micro_batch& one, bool last) {
  const actor_trace::range working(trace_, trace::range_name::backward, one.batch.step);
  const dense_replica::part& part = *one.alive;
  const float* const grad_outputs = at_.is_last() ? part.kept->outputs.data() : one.grad->as<float>().data();
  if (at_.is_first()) {
    replica_.backward_inputs(part, grad_outputs, replica_.grad_input_of(part));
  } else {
    msg::tensor_buffer grad(part.samples.size, replica_.in_features());
    replica_.backward_inputs(part, grad_outputs, grad.data());
    to_.backward(one.batch, one.number, std::move(grad).freeze(), one.loss);
  }
  replica_.backward_parameters(part, grad_outputs, last, to_.full);
}

}  // namespace troupe::actors
