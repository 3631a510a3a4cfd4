#include "troupe/runtime/module_pass.hpp"

#include <fmt/format.h>

#include <new>

#include "troupe/runtime/gradient_writers.hpp"
#include "troupe/runtime/tape.hpp"
#include "troupe/runtime/tensors.hpp"

namespace troupe::runtime {

namespace {

/// Copies numbers from the device to the host.
tensor to_host(kernels::stream& on, const tensor& there) {
  if (on.device().is_host()) return there;
  tensor here(there.shape(), there.type(), on.device().allocate_staging(there.bytes().size()));
  on.download(there.owner().get(), here.owner().get(), there.bytes().size());
  on.synchronize();
  return here;
}

/// Returns the shape of the module's state. Throws `error` unless `given` has this shape, or is empty.
shape checked_state(const nn::module& of, const tensor& input, const tensor& given) {
  const shape lengths = of.state(input);
  if (lengths.dimensions() == 0)
    throw error(error_kind::input, fmt::format("{}: carries no state; apply it to the input alone", of.type()));
  if (given.count() > 0 && !(given.type() == dtype::f32 && given.shape() == lengths))
    throw error(error_kind::input,
                fmt::format("{}: a state {} of {}; for such an input it is {} of float32, or empty for zeros",
                            of.type(), to_string(given.shape()), name_of(given.type()), to_string(lengths)));
  return lengths;
}

view<float> view_of(const tensor& x) {
  if (x.count() == 0) return {};
  return {x.as<float>().data(), x.shape()};
}

}  // namespace

module_pass::module_pass(const nn::module& of, const nn::module_tensors& tensors,
                         const actors::trained_parameters& numbers, const tensor& input, const mode& how,
                         const tensor* state)
    : module_(&of),
      tensors_(&tensors),
      numbers_(&numbers),
      mode_(how),
      output_there_(make(of.output(input), dtype::f32)) {
  nn::check_ids(of, input);
  make_saved(input);
  input_there_ = to_device(input);
  if (state != nullptr) {
    carried_ = std::make_unique<carried>();
    carried_->next_there = make(checked_state(of, input, *state), dtype::f32);
    if (state->count() > 0) carried_->given_there = to_device(*state);
  }
  of.forward(this->how(false), this->numbers());
  output_ = to_host(on(), output_there_);
  if (carried_) carried_->next = to_host(on(), carried_->next_there);
}

void module_pass::make_saved(const tensor& input) {
  const std::size_t count = nn::saved_count(*module_, input, on());
  try {
    saved_.resize(on(), count);
  } catch (const std::bad_alloc&) {
    throw error(error_kind::run, fmt::format("{}: there is no memory for the {} numbers of saved(), for an input {}; "
                                             "save fewer, or try a smaller batch",
                                             module_->type(), count, to_string(input.shape())));
  }
}

std::string module_pass::spoilt_input() const { return where_spoilt(to_host(on(), input_there_)); }

std::string module_pass::spoilt_output() const { return where_spoilt(output_); }

nn::pass module_pass::how(bool is_second_backward) const {
  return {.stream = on(),
          .training = mode_.training,
          .key = mode_.key,
          .ranks = mode_.ranks,
          .slices = mode_.slices,
          .is_second_backward = is_second_backward};
}

nn::pass_numbers module_pass::numbers() {
  return {.parameters = {mode_.weights ? mode_.weights.get() : numbers_->weights_data(), tensors_->parameters},
          .buffers = {numbers_->buffers_data(), tensors_->buffers},
          .input = input_there_,
          .output = view_of(output_there_),
          .saved = {saved_.data(), saved_.size()},
          .state = carried_ ? view_of(carried_->given_there) : view<float>(),
          .next_state = carried_ ? view_of(carried_->next_there) : view<float>()};
}

tensor module_pass::make(const shape& lengths, dtype type) const {
  if (on().device().is_host()) return tensor(lengths, type);
  return {lengths, type, on().device().allocate(checked_bytes(lengths, type))};
}

tensor module_pass::to_device(const tensor& numbers) const {
  if (on().device().is_host()) return numbers;
  tensor there = make(numbers.shape(), numbers.type());
  on().upload(numbers.owner().get(), there.owner().get(), numbers.bytes().size());
  return there;
}

/// Uploads the output's gradient once, for both backward functions.
view<const float> module_pass::grad_there(const tensor& grad) {
  if (grad_there_.count() == 0) grad_there_ = to_device(grad);
  return view_of(grad_there_);
}

tensor module_pass::backward_input(const tensor& grad) {
  const tensor grad_input = make(input_there_.shape(), dtype::f32);
  module_->backward(how(false), numbers(), {.output = grad_there(grad), .input = view_of(grad_input)});
  has_gone_back_ = true;
  return to_host(on(), grad_input);
}

void module_pass::backward_parameters(const tensor& grad, std::span<const nn::parameter_range> ranges,
                                      nn::gradient_places& to) {
  checked_places checked(*module_, ranges, to);
  module_->backward_parameters(how(has_gone_back_), numbers(), grad_there(grad), checked);
  checked.check_end();
  on().synchronize();
}

void check_runs_on(const nn::module& what, const kernels::device& where, const char* option) {
  if (where.is_host()) return;
  if (const std::string first = what.first_without_device_code(); !first.empty())
    throw error(
        error_kind::input,
        fmt::format("{}: has no code for CUDA devices, and is to compute on device {}; write it (docs/library.md, "
                    "runs_on_devices), or use {} cpu",
                    first == what.type() ? first : fmt::format("{} in {}", first, what.type()), where.number(),
                    option));
}

}  // namespace troupe::runtime
