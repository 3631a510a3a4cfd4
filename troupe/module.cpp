#include "troupe/module.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/device.hpp"
#include "troupe/error.hpp"

namespace troupe::nn {

void* pass::cuda_stream() const { return on.native(); }

void module::initialize(std::uint64_t /*key*/, float* parameters_to, float* buffers_to) const {
  std::fill_n(parameters_to, count_of(parameters()), 0.0F);
  std::fill_n(buffers_to, count_of(buffers()), 0.0F);
}

std::vector<stretch> module::stretches() const { return {{0, count_of(parameters())}}; }

void module::backward_parameters(const pass& how, const pass_numbers& numbers, const float* grad_output,
                                 gradient_places& to) const {
  const stretch all{0, count_of(parameters())};
  backward(how, numbers, grad_output, nullptr, to.at(all));
  to.finished(all);
}

std::size_t count_of(const std::vector<parameter>& tensors) {
  std::size_t all = 0;
  for (const parameter& one : tensors)
    if (__builtin_add_overflow(all, one.shape.count(), &all))
      throw error(error_kind::input,
                  fmt::format("tensors up to {} {} have more numbers than any memory; try smaller ones", one.name,
                              to_string(one.shape)));
  return all;
}

void check_features(const module& of, const tensor& input, std::size_t features) {
  const bool fits = input.type() == dtype::f32 && input.shape().dimensions() == 2 && input.shape()[1] == features &&
                    input.count() > 0;
  if (!fits)
    throw error(error_kind::input, fmt::format("{}: takes [n, {}] of float32 with n at least 1, not {} of {}",
                                               of.type(), features, to_string(input.shape()), to_string(input.type())));
}

}  // namespace troupe::nn
