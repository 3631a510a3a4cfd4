#include "nn/conv2d.hpp"

#include <fmt/format.h>

#include "kernels/device.hpp"
#include "nn/option_fields.hpp"
#include "nn/samples.hpp"

namespace troupe::nn {

const option_fields<conv2d_options>& conv2d_options::fields() {
  static const auto all =
      option_fields<conv2d_options>()
          .whole("out_channels", &conv2d_options::out_channels, 1, layer_width_max)
          .whole("kernel", &conv2d_options::kernel, 1, window_max)
          .whole("stride", &conv2d_options::stride, 1, window_max, false)
          .whole("padding", &conv2d_options::padding, 0, window_max, false)
          .whole("dilation", &conv2d_options::dilation, 1, window_max, false)
          .whole("groups", &conv2d_options::groups, 1, layer_width_max, false)
          .that(
              "divides the channels of input and output",
              [](const conv2d_options& of) {
                return of.in_channels % of.groups == 0 && of.out_channels % of.groups == 0;
              },
              [](const conv2d_options& of) { return fmt::format("{} and {}", of.in_channels, of.out_channels); })
          .truth("bias", &conv2d_options::bias);
  return all;
}

conv2d::conv2d(const options& chosen) : layer(checked(chosen)) {
  check_length(options::kind, "in_channels", chosen.in_channels);
}

kernels::conv2d_shape conv2d::shape_of(const troupe::shape& input) const {
  return {input[1],       input[2],        input[3],         chosen_.out_channels, chosen_.kernel,
          chosen_.stride, chosen_.padding, chosen_.dilation, chosen_.groups};
}

std::vector<parameter> conv2d::parameters() const {
  std::vector<parameter> all{
      {"weight", {chosen_.out_channels, chosen_.in_channels / chosen_.groups, chosen_.kernel, chosen_.kernel}}};
  if (chosen_.bias) all.push_back({"bias", {chosen_.out_channels}});
  return all;
}

void conv2d::initialize(std::uint64_t key, const tensor_list<float>& parameters,
                        const tensor_list<float>& /*buffers*/) const {
  fill_uniform(key, 0, count_of(this->parameters()),
               chosen_.in_channels / chosen_.groups * chosen_.kernel * chosen_.kernel, parameters.data());
}

troupe::shape conv2d::output(const tensor_view& input) const {
  const troupe::shape sample = image_of(*this, input);
  if (sample[0] != chosen_.in_channels)
    refuse(*this, fmt::format("is made for images of {} channels, and its input {}", chosen_.in_channels,
                              sample_text(sample)));
  const auto shape = shape_of(input.shape());
  if (shape.out_height() == 0 || shape.out_width() == 0)
    refuse(
        *this,
        fmt::format("its kernel of {0} x {0}{1} does not fit into an image of {2} with a padding of {3}; take "
                    "a smaller kernel or more padding",
                    chosen_.kernel, chosen_.dilation > 1 ? fmt::format(" with a dilation of {}", chosen_.dilation) : "",
                    lengths_text(sample), chosen_.padding));
  if (shape.outputs() > sample_max)
    refuse(*this,
           fmt::format("its output of {} x {} x {} has more than {} numbers a sample, and its input is {}; take "
                       "fewer channels or a larger stride",
                       shape.out_channels, shape.out_height(), shape.out_width(), sample_max, lengths_text(sample)));
  return {input.shape()[0], shape.out_channels, shape.out_height(), shape.out_width()};
}

void conv2d::forward(const pass& how, const pass_numbers& numbers) const {
  how.stream.conv2d_forward(shape_of(numbers.input.shape()), numbers.input.shape()[0], numbers.input.as<float>().data(),
                            numbers.parameters[0].data(), chosen_.bias ? numbers.parameters[1].data() : nullptr,
                            numbers.output.data());
}

void conv2d::backward(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  const auto shape = shape_of(numbers.input.shape());
  const std::size_t batch = numbers.input.shape()[0];
  if (of.input)
    how.stream.conv2d_backward_input(shape, batch, numbers.parameters[0].data(), of.output.data(), of.input.data());
  if (of.parameters)
    how.stream.conv2d_backward_parameters(shape, batch, numbers.input.as<float>().data(), of.output.data(),
                                          of.parameters[0].data(), chosen_.bias ? of.parameters[1].data() : nullptr);
}

std::uint64_t conv2d::multiply_adds(const tensor_view& input) const {
  const auto shape = shape_of(input.shape());
  return std::uint64_t{input.shape()[0]} * shape.weights() * shape.out_height() * shape.out_width();
}

}  // namespace troupe::nn
