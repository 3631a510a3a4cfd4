#include "actors/stage_passes.hpp"

#include <utility>

#include "actors/faults.hpp"
#include "base/assert.hpp"

namespace troupe::actors {

void stage_passes::begin(const dense_replica::pass& batch, std::uint32_t count, bool last) {
  TROUPE_ASSERT(!is_under_way() && count > 0);
  replica_.begin_parts(batch);
  step_ = batch.step;
  batch_size_ = batch.size;
  count_ = count;
  forward_ = back_ = 0;
  last_ = last;
  all_.clear();
  all_.resize(count);
}

bool stage_passes::lacks_input(std::uint32_t number) const {
  return number < count_ && all_[number].input == nullptr && number >= forward_;
}

bool stage_passes::lacks_gradient(std::uint32_t number) const {
  return number < forward_ && all_[number].alive && !all_[number].grad;
}

void stage_passes::add_input(std::uint32_t number, const float* input, const model::loss_targets& targets,
                             std::vector<msg::tensor> keeps) {
  TROUPE_ASSERT(lacks_input(number));
  micro_batch& one = all_[number];
  one.input = input;
  one.targets = targets;
  one.keeps = std::move(keeps);
}

void stage_passes::add_gradient(std::uint32_t number, msg::tensor grad, double loss) {
  TROUPE_ASSERT(lacks_gradient(number));
  all_[number].grad = std::move(grad);
  all_[number].loss = loss;
}

bool stage_passes::advance() {
  while (is_under_way()) {
    const bool lacks = waits_for_input() ? lacks_input(forward_) : !at_.is_last() && lacks_gradient(back_);
    if (lacks) return false;
    pass_next();
  }
  replica_.end_parts();
  return true;
}

void stage_passes::pass_next() {
  const clock::time_point begin = clock::now();
  const double waited_before = slices_.waited();
  if (forward_ == 0) began_ = begin;
  if (auto* wrong = faults()) wrong->passing(at_.stage, waits_for_input());
  if (waits_for_input())
    pass_forward(all_[forward_]);
  else
    pass_back(all_[back_]);
  const clock::time_point end = clock::now();
  pass_seconds_ += std::chrono::duration<double>(end - begin).count() - (slices_.waited() - waited_before);
  if (!is_under_way()) batch_seconds_ += std::chrono::duration<double>(end - began_).count();
}

void stage_passes::pass_forward(micro_batch& one) {
  {
    const actor_trace::range working(trace_, trace::range_name::forward, step_);
    one.alive = replica_.forward(forward_, one.input);
    if (at_.is_last()) one.loss = replica_.loss(*one.alive, one.targets);
  }
  ++forward_;
  TROUPE_ASSERT(alive() <= alive_max(at_, count_));
  if (!at_.is_last())
    to_.forward(*one.alive);
  else if (to_.loss)
    to_.loss(one.loss);
}

void stage_passes::pass_back(micro_batch& one) {
  const actor_trace::range working(trace_, trace::range_name::backward, step_);
  const dense_replica::part& part = *one.alive;
  const float* const grad_outputs = at_.is_last() ? part.kept->outputs() : one.grad->as<float>().data();
  if (at_.is_first()) {
    replica_.backward_inputs(part, grad_outputs, replica_.grad_input_of(part));
  } else {
    msg::tensor_buffer grad(part.samples.size, replica_.in_features());
    replica_.backward_inputs(part, grad_outputs, grad.data());
    to_.backward(back_, std::move(grad).freeze(), one.loss);
  }
  replica_.backward_parameters(part, grad_outputs, last_ && back_ + 1 == count_, to_.full);
  one.alive.reset();
  one.grad.reset();
  one.keeps.clear();
  ++back_;
}

double stage_passes::loss() const {
  double sum = all_.front().loss;
  for (std::uint32_t i = 1; i < count_; ++i) sum += all_[i].loss;
  return sum;
}

}  // namespace troupe::actors
