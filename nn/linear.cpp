#include "nn/linear.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "kernels/device.hpp"
#include "nn/option_fields.hpp"
#include "nn/samples.hpp"

namespace troupe::nn {

const option_fields<linear_options>& linear_options::fields() {
  static const auto all = option_fields<linear_options>()
                              .whole("out", &linear_options::out_features, 1, layer_width_max)
                              .truth("bias", &linear_options::bias);
  return all;
}

option_fields<linear_options> linear_options::remote_fields() {
  return option_fields<linear_options>()
      .whole("in_features", &linear_options::in_features, 1)
      .whole("out_features", &linear_options::out_features, 1)
      .truth("bias", &linear_options::bias);
}

linear::linear(const options& chosen) : layer(chosen) {
  if (chosen.in_features == 0 || chosen.out_features == 0)
    throw error(error_kind::input,
                fmt::format("linear({}, {}): both must be at least 1", chosen.in_features, chosen.out_features));
}

std::vector<parameter> linear::parameters() const {
  std::vector<parameter> all{{"weight", {chosen_.out_features, chosen_.in_features}}};
  if (chosen_.bias) all.push_back({"bias", {chosen_.out_features}});
  return all;
}

void linear::initialize(std::uint64_t key, const tensor_list<float>& parameters,
                        const tensor_list<float>& /*buffers*/) const {
  fill_uniform(key, 0, count_of(this->parameters()), chosen_.in_features, parameters.data());
}

troupe::shape linear::output(const tensor_view& input) const {
  const std::size_t lengths = input.shape().dimensions();
  if (lengths == 3 || lengths == 4)
    vectors_of(*this, input, chosen_.in_features);
  else
    check_features(*this, input, chosen_.in_features);
  if (lengths == 2) return {input.shape()[0], chosen_.out_features};
  if (input.shape()[1] > sample_max / chosen_.out_features)
    refuse(*this, fmt::format("its output of {} x {} has more than {} numbers a sample; take a smaller out",
                              input.shape()[1], chosen_.out_features, sample_max));
  return {input.shape()[0], input.shape()[1], chosen_.out_features};
}

void linear::forward(const pass& how, const pass_numbers& numbers) const {
  how.stream.linear_forward(rows_of(numbers.input), chosen_.in_features, chosen_.out_features,
                            numbers.input.as<float>().data(), numbers.parameters[0].data(),
                            chosen_.bias ? numbers.parameters[1].data() : nullptr, kernels::activation::none,
                            numbers.output.data());
}

void linear::backward(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  const auto [in, out, bias] = chosen_;
  const std::size_t batch = rows_of(numbers.input);
  if (of.input)
    how.stream.linear_backward_input(batch, in, out, numbers.parameters[0].data(), of.output.data(), of.input.data());
  if (of.parameters)
    how.stream.linear_backward_parameters(batch, in, out, numbers.input.as<float>().data(), of.output.data(),
                                          of.parameters[0].data(), bias ? of.parameters[1].data() : nullptr);
}

std::uint64_t linear::multiply_adds(const tensor_view& input) const {
  return std::uint64_t{input.count()} * chosen_.out_features;
}

}  // namespace troupe::nn
