#include "nn/layer_norm.hpp"

#include <algorithm>

#include "kernels/device.hpp"
#include "nn/option_fields.hpp"
#include "nn/samples.hpp"

namespace troupe::nn {

const option_fields<layer_norm_options>& layer_norm_options::fields() {
  static const auto all = option_fields<layer_norm_options>().real(
      "eps", &layer_norm_options::eps, "a number above 0 and at most 1", [](double x) { return x > 0 && x <= 1; });
  return all;
}

layer_norm::layer_norm(const options& chosen) : layer(checked(chosen)) {
  check_length(options::kind, "features", chosen.features);
}

std::vector<parameter> layer_norm::parameters() const {
  return {{"weight", {chosen_.features}}, {"bias", {chosen_.features}}};
}

void layer_norm::initialize(std::uint64_t /*key*/, const tensor_list<float>& parameters,
                            const tensor_list<float>& /*buffers*/) const {
  std::ranges::fill(parameters[0], 1.0F);
  std::ranges::fill(parameters[1], 0.0F);
}

troupe::shape layer_norm::output(const tensor_view& input) const {
  vectors_of(*this, input, chosen_.features);
  return input.shape();
}

/// For each row, mean and 1 / sqrt(variance + eps): [2, rows].
std::size_t layer_norm::saved(const tensor_view& input, const kernels::stream& /*on*/) const {
  return 2 * rows_of(input);
}

void layer_norm::forward(const pass& how, const pass_numbers& numbers) const {
  const std::size_t rows = rows_of(numbers.input);
  float* const mean = numbers.saved.data();
  how.stream.layer_norm_forward(rows, chosen_.features, numbers.input.as<float>().data(),
                                static_cast<float>(chosen_.eps), numbers.parameters[0].data(),
                                numbers.parameters[1].data(), mean, mean + rows, numbers.output.data());
}

void layer_norm::backward(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  const std::size_t rows = rows_of(numbers.input);
  const float* const x = numbers.input.as<float>().data();
  const float* const mean = numbers.saved.data();
  if (of.input)
    how.stream.layer_norm_backward_input(rows, chosen_.features, x, mean, mean + rows, numbers.parameters[0].data(),
                                         of.output.data(), of.input.data());
  if (of.parameters)
    how.stream.layer_norm_backward_parameters(rows, chosen_.features, x, mean, mean + rows, of.output.data(),
                                              of.parameters[0].data(), of.parameters[1].data());
}

}  // namespace troupe::nn
