#include <boost/container/small_vector.hpp>
#include <exception>
#include <functional>
#include <span>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/random_bits.hpp"
#include "nn/sequential_plan.hpp"

namespace troupe::nn {

namespace {
constexpr std::size_t few_modules = 8;  // lists of so many need no allocation
}

/// Gives a step its own random numbers.
pass sequential::pass_of(const step& of, const pass& whole) const {
  pass own = whole;
  own.key = kernels::random_bits(whole.key, of.number + shift_);
  return own;
}

/// Joins the passes of the other ranks, without samples.
void sequential::pass_without_samples(const pass& how, const plan& all, bool is_backward) const {
  for (std::size_t k = 0; k < all.steps.size(); ++k) {
    const step& one = all.steps[is_backward ? all.steps.size() - 1 - k : k];
    if (!one.what->synchronizes()) continue;
    const pass_numbers none{.input = one.input.with_first(0)};
    if (is_backward)
      one.what->backward(pass_of(one, how), none, {});
    else
      one.what->forward(pass_of(one, how), none);
  }
}

namespace {

bool has_samples(const tensor_view& input) { return input.shape()[0] > 0; }

tensor_view with_a_sample(const tensor_view& input) { return {input.shape().with_first(1), nullptr, input.type()}; }

}  // namespace

void sequential::forward(const pass& how, const pass_numbers& numbers) const {
  if (!has_samples(numbers.input))
    return pass_without_samples(how, *plan_of(with_a_sample(numbers.input), how.stream), false);
  const auto all = plan_of(numbers.input, how.stream);
  for (const step& one : all->steps) {
    if (!one.fused) {
      one.what->forward(pass_of(one, how), all->numbers(one, numbers));
      continue;
    }
    const bool has_mask = one.fused->forward(how, all->fused_numbers(one, numbers), all->output_of(one, numbers));
    if (how.training) all->has_mask[all->place(one)].store(has_mask, std::memory_order_relaxed);
  }
}

/// Computes the gradients between the modules: the first part of the backward pass.
void sequential::backward_inputs(const pass& how, const pass_numbers& numbers, const plan& all,
                                 const gradients& of) const {
  view<const float> grad = of.output;
  bool is_masked = false;
  for (std::size_t i = all.steps.size(); i-- > 0;) {
    const step& one = all.steps[i];
    if (one.has_relu() && !is_masked)
      how.stream.relu_backward(grad.size(), all.output_of(one, numbers), grad.data(), all.grad_output(one, numbers));
    is_masked = false;
    view<float> below;
    if (i == 0)
      below = of.input;
    else if (of.input || one.is_trained_below)
      below = {numbers.saved.data() + all.steps[i - 1].grad_at, one.input};
    if (one.fused) {
      // Evaluation writes no mask: one of an earlier pass may be there. Masks have the rows of their layer, which a
      // following `flatten` may have made longer.
      const bool asks = how.training && i > 0 && all.steps[i - 1].has_relu() &&
                        all.steps[i - 1].fused->out == one.fused->in &&
                        all.has_mask[i - 1].load(std::memory_order_relaxed);
      const std::byte* const mask =
          asks ? all.steps[i - 1].fused->mask_in(numbers.saved.data() + all.steps[i - 1].saved_at) : nullptr;
      is_masked = one.fused->backward_input(how, all.fused_numbers(one, numbers), grad.data(), below.data(), mask);
    } else if (below || !one.parameters.empty()) {
      one.what->backward(pass_of(one, how), all.numbers(one, numbers), {grad, below});
    }
    if (!below) return;
    grad = below;
  }
}

void sequential::backward(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  if (!has_samples(numbers.input))
    pass_without_samples(how, *plan_of(with_a_sample(numbers.input), how.stream), true);
  else if (!how.is_second_backward)
    backward_inputs(how, numbers, *plan_of(numbers.input, how.stream), of);
  if (!of.parameters) return;
  flat_gradient to(of.parameters.data());
  pass next = how;
  next.is_second_backward = true;
  backward_parameters(next, numbers, of.output, to);
}

namespace {

/// Addresses that were requested before, in the module's order of requests.
class known_places final : public gradient_places {
 public:
  explicit known_places(std::span<float* const> places) : places_(places) {}

  float* at(const parameter_range& /*which*/) override { return places_[next_++]; }
  void finished(const parameter_range& /*which*/) override {}

 private:
  std::span<float* const> places_;
  std::size_t next_ = 0;
};

}  // namespace

namespace {

/// Writes the gradient of zero samples.
void write_zeros(const pass& how, const std::vector<parameter_range>& ranges, gradient_places& to) {
  for (std::size_t i = ranges.size(); i-- > 0;) {
    how.stream.fill(ranges[i].count, 0, to.at(ranges[i]));
    to.finished(ranges[i]);
  }
}

}  // namespace

/// Computes the modules' parameter gradients in parallel, from the last module on.
void sequential::backward_parameters(const pass& how, const pass_numbers& numbers, const view<const float>& grad_output,
                                     gradient_places& to) const {
  if (!has_samples(numbers.input)) return write_zeros(how, ranges(), to);
  const auto all = plan_of(numbers.input, how.stream);
  pass next = how;
  if (!how.is_second_backward) backward_inputs(how, numbers, *all, {grad_output});
  next.is_second_backward = true;
  boost::container::small_vector<float*, few_modules> places;
  for (const step* const one : all->trained)
    for (std::size_t k = one->ranges.size(); k-- > 0;) places.push_back(to.at(one->ranges[k]));
  boost::container::small_vector<std::exception_ptr, few_modules> failed(all->trained.size());
  const auto compute = [&](std::size_t part) {
    const step& one = *all->trained[part];
    const float* const grad = all->is_last(one) ? grad_output.data() : all->grad_output(one, numbers);
    try {
      known_places its_places({places.data() + one.first_range, one.ranges.size()});
      if (one.fused)
        one.fused->backward_parameters(next, all->fused_numbers(one, numbers), grad, its_places.at({}));
      else
        one.what->backward_parameters(pass_of(one, next), all->numbers(one, numbers), {grad, one.output}, its_places);
    } catch (...) {
      failed[part] = std::current_exception();
    }
  };
  const auto report = [&](std::size_t part) {
    if (failed[part]) return;
    const auto& ranges = all->trained[part]->ranges;
    for (std::size_t k = ranges.size(); k-- > 0;) to.finished(ranges[k]);
  };
  how.stream.side_by_side(all->trained.size(), all->operations, std::ref(compute), std::ref(report));
  for (const std::exception_ptr& one : failed)
    if (one) std::rethrow_exception(one);
}

}  // namespace troupe::nn
