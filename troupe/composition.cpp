#include "troupe/composition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/device.hpp"
#include "model/random.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/module_size.hpp"

namespace troupe::nn {

namespace {

/// A tensor of memory that somebody else keeps.
tensor view_of(const troupe::shape& lengths, float* numbers) {
  return {lengths, dtype::f32, {std::shared_ptr<std::byte>(), reinterpret_cast<std::byte*>(numbers)}};
}

/// A tensor that stands for numbers which are not there yet.
tensor outline(const troupe::shape& lengths) {
  static float nothing = 0;
  return view_of(lengths, &nothing);
}

void append(std::vector<parameter>& to, const std::string& prefix, std::vector<parameter> tensors) {
  for (parameter& one : tensors) to.push_back({fmt::format("{}.{}", prefix, one.name), one.shape});
}

/// Returns a + b. Throws `error` if no memory has so many numbers.
std::size_t saved_sum(const module& of, std::size_t a, std::size_t b) {
  if (__builtin_add_overflow(a, b, &a))
    throw error(error_kind::input, fmt::format("{}: its modules save more numbers than any memory has; save fewer, or "
                                               "try a smaller batch",
                                               of.type()));
  return a;
}

/// The places of a part within those of the whole.
class places_of_part final : public gradient_places {
 public:
  places_of_part(gradient_places& whole, std::size_t first) : whole_(whole), first_(first) {}

  float* at(const stretch& which) override { return whole_.at({first_ + which.first, which.count}); }
  void finished(const stretch& which) override { whole_.finished({first_ + which.first, which.count}); }

 private:
  gradient_places& whole_;
  std::size_t first_;
};

class flat_places final : public gradient_places {
 public:
  explicit flat_places(float* numbers) : numbers_(numbers) {}

  float* at(const stretch& which) override { return numbers_ + which.first; }
  void finished(const stretch& /*which*/) override {}

 private:
  float* numbers_;
};

}  // namespace

// -- sequential -------------------------------------------------------------------------

/// A module in its place. What is saved is, for each module: what it keeps itself, and, but for the last, its output
/// and the gradient of that.
struct sequential::stage {
  const module* what = nullptr;
  std::uint64_t number = 0;
  std::size_t parameters = 0;  ///< how many
  std::size_t first_parameter = 0;
  std::size_t first_buffer = 0;
  std::size_t first_saved = 0;
  std::size_t saved = 0;
  tensor input = {};
  tensor output = {};
  /// With numbers:
  pass_numbers numbers = {.input = input};
  float* grad_output = nullptr;  ///< null: that of the whole

  std::size_t outputs() const { return output.shape().count(); }
};

void sequential::check_any() const {
  if (modules_.empty()) throw error(error_kind::input, "sequential: has no modules; add at least 1");
}

sequential& sequential::append(const sequential& more) {
  modules_.insert(modules_.end(), more.modules_.begin(), more.modules_.end());
  return *this;
}

sequential sequential::part(std::size_t first, std::size_t count) const {
  if (first > size() || count > size() - first)
    throw error(error_kind::input,
                fmt::format("sequential: a part of {} modules from {} on; it has {}", count, first, size()));
  sequential some;
  some.modules_.assign(modules_.begin() + static_cast<std::ptrdiff_t>(first),
                       modules_.begin() + static_cast<std::ptrdiff_t>(first + count));
  some.first_ = first_ + first;
  return some;
}

/// The shapes only.
std::vector<sequential::stage> sequential::stages(const tensor& input) const {
  check_any();
  std::vector<stage> all(modules_.size());
  std::size_t parameter = 0;
  std::size_t buffer = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    stage& next = all[i];
    next.what = modules_[i].get();
    next.number = first_ + i;
    next.input = i == 0 ? input : all[i - 1].output;
    next.output = outline(next.what->output(next.input));
    next.parameters = count_of(next.what->parameters());
    next.first_parameter = std::exchange(parameter, parameter + next.parameters);
    next.first_buffer = std::exchange(buffer, buffer + count_of(next.what->buffers()));
    next.saved = runtime::saved_count(*next.what, next.input);
    next.first_saved = std::exchange(kept, saved_sum(*this, kept, next.saved));
    for (int k = 0; k < 2 && i + 1 < all.size(); ++k) kept = saved_sum(*this, kept, next.outputs());
  }
  return all;
}

/// With the numbers of a pass.
std::vector<sequential::stage> sequential::stages(const pass_numbers& whole) const {
  std::vector<stage> all = stages(whole.input);
  for (std::size_t i = 0; i < all.size(); ++i) {
    stage& next = all[i];
    const bool is_last = i + 1 == all.size();
    float* const kept = whole.saved + next.first_saved;
    float* const to = is_last ? whole.output : kept + next.saved;
    if (!is_last) next.grad_output = to + next.outputs();
    if (i > 0) next.input = all[i - 1].output;
    next.output = view_of(next.output.shape(), to);
    next.numbers.parameters = whole.parameters + next.first_parameter;
    next.numbers.buffers = whole.buffers + next.first_buffer;
    next.numbers.output = to;
    next.numbers.saved = kept;
  }
  return all;
}

std::vector<parameter> sequential::parameters() const {
  std::vector<parameter> all;
  for (std::size_t i = 0; i < modules_.size(); ++i)
    nn::append(all, std::to_string(first_ + i), modules_[i]->parameters());
  return all;
}

std::vector<parameter> sequential::buffers() const {
  std::vector<parameter> all;
  for (std::size_t i = 0; i < modules_.size(); ++i) nn::append(all, std::to_string(first_ + i), modules_[i]->buffers());
  return all;
}

void sequential::initialize(std::uint64_t key, float* parameters, float* buffers) const {
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    modules_[i]->initialize(model::random_bits(key, first_ + i), parameters, buffers);
    parameters += count_of(modules_[i]->parameters());
    buffers += count_of(modules_[i]->buffers());
  }
}

troupe::shape sequential::output(const tensor& input) const { return stages(input).back().output.shape(); }

std::size_t sequential::saved(const tensor& input) const {
  const auto all = stages(input);
  return saved_sum(*this, all.back().first_saved, all.back().saved);
}

namespace {

/// A pass of a part: with random numbers of its own.
pass part_of(const pass& whole, std::uint64_t number, bool goes_on) {
  return {.on = whole.on,
          .training = whole.training,
          .key = model::random_bits(whole.key, number),
          .goes_on = goes_on,
          .ranks = whole.ranks};
}

}  // namespace

void sequential::forward(const pass& how, const pass_numbers& numbers) const {
  for (const stage& one : stages(numbers)) one.what->forward(part_of(how, one.number, false), one.numbers);
}

/// The first way back: the gradients between the modules.
void sequential::backward_inputs(const pass& how, const std::vector<stage>& all, const float* grad_output,
                                 float* grad_input) const {
  for (std::size_t i = all.size(); i-- > 0;) {
    const float* const grad = all[i].grad_output == nullptr ? grad_output : all[i].grad_output;
    all[i].what->backward(part_of(how, all[i].number, false), all[i].numbers, grad,
                          i == 0 ? grad_input : all[i - 1].grad_output, nullptr);
  }
}

void sequential::backward(const pass& how, const pass_numbers& numbers, const float* grad_output, float* grad_input,
                          float* grad_parameters) const {
  if (grad_parameters == nullptr || grad_input != nullptr)
    backward_inputs(how, stages(numbers), grad_output, grad_input);
  if (grad_parameters == nullptr) return;
  flat_places to(grad_parameters);
  pass next = how;
  next.goes_on = how.goes_on || grad_input != nullptr;
  backward_parameters(next, numbers, grad_output, to);
}

std::vector<stretch> sequential::stretches() const {
  std::vector<stretch> all;
  std::size_t first = 0;
  for (const auto& one : modules_) {
    const std::size_t count = count_of(one->parameters());
    if (count == 0) continue;
    for (const stretch& part : one->stretches()) all.push_back({first + part.first, part.count});
    first += count;
  }
  return all;
}

void sequential::backward_parameters(const pass& how, const pass_numbers& numbers, const float* grad_output,
                                     gradient_places& to) const {
  const auto all = stages(numbers);
  if (!how.goes_on) backward_inputs(how, all, grad_output, nullptr);
  for (std::size_t i = all.size(); i-- > 0;) {
    if (all[i].parameters == 0) continue;
    places_of_part places(to, all[i].first_parameter);
    all[i].what->backward_parameters(part_of(how, all[i].number, true), all[i].numbers,
                                     all[i].grad_output == nullptr ? grad_output : all[i].grad_output, places);
  }
}

std::string sequential::first_without_device_code() const {
  for (const auto& one : modules_)
    if (std::string first = one->first_without_device_code(); !first.empty()) return first;
  return {};
}
bool sequential::uses_key() const {
  return std::ranges::any_of(modules_, [](const auto& one) { return one->uses_key(); });
}
bool sequential::synchronizes() const {
  return std::ranges::any_of(modules_, [](const auto& one) { return one->synchronizes(); });
}

// -- residual -----------------------------------------------------------------------------

namespace {

/// The module's own numbers, within those of the sum: what it keeps, and its output.
struct inner_numbers {
  inner_numbers(const module& of, const pass_numbers& whole)
      : outputs(whole.input.shape().count()), output(whole.saved + of.saved(whole.input)) {}

  pass_numbers in(const pass_numbers& whole) const {
    return {whole.parameters, whole.buffers, whole.input, output, whole.saved};
  }

  std::size_t outputs;
  float* output;
};

void add_to(kernels::stream& on, std::size_t count, const float* more, const float* x, float* sum) {
  const std::array<const float*, 2> parts = {x, more};
  on.sum_in_rank_order(parts, count, 1.0F, sum);
}

}  // namespace

std::vector<parameter> residual::parameters() const {
  std::vector<parameter> all;
  append(all, "module", module_->parameters());
  return all;
}

std::vector<parameter> residual::buffers() const {
  std::vector<parameter> all;
  append(all, "module", module_->buffers());
  return all;
}

troupe::shape residual::output(const tensor& input) const {
  const troupe::shape inner = module_->output(input);
  if (input.type() != dtype::f32 || !(inner == input.shape()))
    throw error(error_kind::input,
                fmt::format("residual: {} makes {} of {} of {}; its output must have the input's shape, of float32",
                            module_->type(), to_string(inner), to_string(input.shape()), to_string(input.type())));
  return inner;
}

std::size_t residual::saved(const tensor& input) const {
  return saved_sum(*this, runtime::saved_count(*module_, input), input.shape().count());
}

void residual::forward(const pass& how, const pass_numbers& numbers) const {
  const inner_numbers inner(*module_, numbers);
  module_->forward(how, inner.in(numbers));
  add_to(how.on, inner.outputs, inner.output, numbers.input.as<float>().data(), numbers.output);
}

void residual::backward(const pass& how, const pass_numbers& numbers, const float* grad_output, float* grad_input,
                        float* grad_parameters) const {
  const inner_numbers inner(*module_, numbers);
  module_->backward(how, inner.in(numbers), grad_output, grad_input, grad_parameters);
  if (grad_input != nullptr) add_to(how.on, inner.outputs, grad_output, grad_input, grad_input);
}

void residual::backward_parameters(const pass& how, const pass_numbers& numbers, const float* grad_output,
                                   gradient_places& to) const {
  const inner_numbers inner(*module_, numbers);
  module_->backward_parameters(how, inner.in(numbers), grad_output, to);
}

}  // namespace troupe::nn
