#include "nn/residual.hpp"

#include <fmt/format.h>

#include <array>

#include "kernels/device.hpp"
#include "nn/samples.hpp"
#include "nn/sequential.hpp"

namespace troupe::nn {

namespace {

/// The inner module's output and saved numbers, within those of the residual.
pass_numbers inner_numbers(const pass& how, const pass_numbers& whole) {
  pass_numbers inner = whole;
  inner.output = {whole.saved.data(), whole.output.shape()};
  inner.saved = whole.saved.subspan(aligned(how.stream, whole.output.size()));
  return inner;
}

void add_to(kernels::stream& on, std::size_t count, const float* more, const float* x, float* sum) {
  const std::array<const float*, 2> parts = {x, more};
  on.sum_in_rank_order(parts, count, 1.0F, sum);
}

}  // namespace

residual residual::of_layers(std::vector<std::shared_ptr<const module>> inner) {
  residual made;
  made.module_ = std::make_shared<const sequential>(std::move(inner), 0, 1);
  made.names_module_ = false;
  return made;
}

std::vector<parameter> residual::named(std::vector<parameter> tensors) const {
  if (!names_module_) return tensors;
  std::vector<parameter> all;
  append_named(all, "module", std::move(tensors));
  return all;
}

std::vector<parameter> residual::parameters() const { return named(module_->parameters()); }

std::vector<parameter> residual::buffers() const { return named(module_->buffers()); }

void residual::initialize(std::uint64_t key, const tensor_list<float>& parameters,
                          const tensor_list<float>& buffers) const {
  module_->initialize(key, parameters, buffers);
}

troupe::shape residual::output(const tensor_view& input) const {
  const troupe::shape inner = module_->output(input);
  if (input.type() != dtype::f32 || !(inner == input.shape()))
    refuse(*this, fmt::format("{} makes {} of {} of {}; its output must have the input's shape, of float32",
                              module_->type(), to_string(inner), to_string(input.shape()), name_of(input.type())));
  return inner;
}

std::size_t residual::saved(const tensor_view& input, const kernels::stream& on) const {
  std::size_t count = saved_count(*module_, input, on);
  if (__builtin_add_overflow(count, aligned(on, input.count()), &count))
    refuse(*this, "its module saves more numbers than any memory has; save fewer, or try a smaller batch");
  return count;
}

void residual::forward(const pass& how, const pass_numbers& numbers) const {
  if (numbers.input.shape()[0] == 0) return module_->forward(how, numbers);  // only joins other ranks' passes
  const pass_numbers inner = inner_numbers(how, numbers);
  module_->forward(how, inner);
  add_to(how.stream, inner.output.size(), inner.output.data(), numbers.input.as<float>().data(), numbers.output.data());
}

void residual::backward(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  if (numbers.input.shape()[0] == 0) return module_->backward(how, numbers, of);
  module_->backward(how, inner_numbers(how, numbers), of);
  if (of.input) add_to(how.stream, of.input.size(), of.output.data(), of.input.data(), of.input.data());
}

void residual::backward_parameters(const pass& how, const pass_numbers& numbers, const view<const float>& grad_output,
                                   gradient_places& to) const {
  module_->backward_parameters(how, inner_numbers(how, numbers), grad_output, to);
}

}  // namespace troupe::nn
