#include "nn/pool2d.hpp"

#include <fmt/format.h>

#include <type_traits>

#include "kernels/device.hpp"
#include "nn/option_fields.hpp"
#include "nn/samples.hpp"

namespace troupe::nn {

namespace {

template <class Options>
constexpr bool is_global = std::is_same_v<Options, global_avg_pool2d_options>;

/// The default stride is the kernel's size; files may set 1 or more.
template <class Options>
option_fields<Options> window_fields() {
  return option_fields<Options>()
      .whole("kernel", &Options::kernel, 1, window_max)
      .whole("stride", &Options::stride, 1, window_max, false);
}

template <class Options>
kernels::pool2d_shape windows_of(const troupe::shape& input, const Options& chosen) {
  if constexpr (is_global<Options>)
    return {input[1], input[2], input[3], input[2], input[3], 1};
  else
    return {input[1],      input[2],      input[3],
            chosen.kernel, chosen.kernel, chosen.stride > 0 ? chosen.stride : chosen.kernel};
}

}  // namespace

const option_fields<max_pool2d_options>& max_pool2d_options::fields() {
  static const auto all = window_fields<max_pool2d_options>();
  return all;
}

const option_fields<avg_pool2d_options>& avg_pool2d_options::fields() {
  static const auto all = window_fields<avg_pool2d_options>();
  return all;
}

template <class Options>
pool2d<Options>::pool2d(const Options& chosen) : layer<Options>(checked(chosen)) {}

template <class Options>
troupe::shape pool2d<Options>::output(const tensor_view& input) const {
  const troupe::shape sample = image_of(*this, input);
  if constexpr (is_global<Options>) {
    return {input.shape()[0], sample[0]};
  } else {
    const auto windows = windows_of(input.shape(), this->chosen_);
    if (windows.out_height() == 0 || windows.out_width() == 0)
      refuse(*this, fmt::format("its kernel of {0} x {0} does not fit into an image of {1}; take a smaller kernel",
                                this->chosen_.kernel, lengths_text(sample)));
    return {input.shape()[0], sample[0], windows.out_height(), windows.out_width()};
  }
}

template <class Options>
void pool2d<Options>::forward(const pass& how, const pass_numbers& numbers) const {
  const troupe::shape& in = numbers.input.shape();
  const float* const x = numbers.input.as<float>().data();
  if constexpr (std::is_same_v<Options, max_pool2d_options>)
    how.stream.max_pool2d_forward(windows_of(in, this->chosen_), in[0], x, numbers.output.data());
  else
    how.stream.avg_pool2d_forward(windows_of(in, this->chosen_), in[0], x, numbers.output.data());
}

template <class Options>
void pool2d<Options>::backward(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  if (!of.input) return;
  const troupe::shape& in = numbers.input.shape();
  const auto windows = windows_of(in, this->chosen_);
  if constexpr (std::is_same_v<Options, max_pool2d_options>)
    how.stream.max_pool2d_backward(windows, in[0], numbers.input.as<float>().data(), of.output.data(), of.input.data());
  else
    how.stream.avg_pool2d_backward(windows, in[0], of.output.data(), of.input.data());
}

template class pool2d<max_pool2d_options>;
template class pool2d<avg_pool2d_options>;
template class pool2d<global_avg_pool2d_options>;

}  // namespace troupe::nn
