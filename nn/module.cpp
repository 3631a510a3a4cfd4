#include "nn/module.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "kernels/device.hpp"

namespace troupe::nn {

void* pass::cuda_stream() const { return stream.native(); }

void module::initialize(std::uint64_t /*key*/, const tensor_list<float>& parameters,
                        const tensor_list<float>& buffers) const {
  for (const auto& list : {parameters, buffers})
    for (std::size_t i = 0; i < list.size(); ++i) std::ranges::fill(list[i], 0.0F);
}

std::vector<parameter_range> module::ranges() const { return {{0, count_of(parameters())}}; }

void module::backward_parameters(const pass& how, const pass_numbers& numbers, const view<const float>& grad_output,
                                 gradient_places& to) const {
  const parameter_range all{0, count_of(numbers.parameters.tensors())};
  backward(how, numbers, {.output = grad_output, .parameters = {to.at(all), numbers.parameters.tensors()}});
  to.finished(all);
}

flat_numbers initial_numbers(const module& of, std::uint64_t key) {
  const auto parameters = placed(of.parameters());
  const auto buffers = placed(of.buffers());
  flat_numbers made{std::vector<float>(count_of(parameters)), std::vector<float>(count_of(buffers))};
  of.initialize(key, {made.parameters.data(), parameters}, {made.buffers.data(), buffers});
  return made;
}

std::size_t saved_count(const module& of, const tensor_view& input, const kernels::stream& on) {
  constexpr std::size_t count_max = std::size_t{PTRDIFF_MAX} / sizeof(float);
  const std::size_t count = of.saved(input, on);
  if (count > count_max)
    throw error(error_kind::input,
                fmt::format("{}: saved() is {} numbers for an input {}; it has more than {} bytes; save fewer",
                            of.type(), count, to_string(input.shape()), PTRDIFF_MAX));
  return count;
}

void check_features(const module& of, const tensor_view& input, std::size_t features) {
  const bool fits = input.type() == dtype::f32 && input.shape().dimensions() == 2 && input.shape()[1] == features &&
                    input.count() > 0;
  if (!fits)
    throw error(error_kind::input, fmt::format("{}: takes [n, {}] of float32 with n at least 1, not {} of {}",
                                               of.type(), features, to_string(input.shape()), name_of(input.type())));
}

}  // namespace troupe::nn
