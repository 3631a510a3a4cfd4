#include "model/sliced_linear.hpp"

#include "kernels/device.hpp"
#include "nn/slice_sums.hpp"

namespace troupe::model {

void sliced_linear::forward(const nn::pass& how, const nn::pass_numbers& numbers) const {
  if (cut_ == layer_cut::outputs) return whole_.forward(how, numbers);
  const auto [in, out, has_bias] = whole_.chosen();
  const std::size_t batch = numbers.input.count() / in;
  how.stream.linear_forward(batch, in, out, numbers.input.as<float>().data(), numbers.parameters[0].data(), nullptr,
                            kernels::activation::none, how.slices->share(batch, out));
  how.slices->sum(numbers.output.data());
  if (has_bias) how.stream.add_columns(batch, out, {numbers.parameters[1].data(), 0}, {numbers.output.data(), out});
}

void sliced_linear::backward(const nn::pass& how, const nn::pass_numbers& numbers, const nn::gradients& of) const {
  nn::gradients own = of;
  if (cut_ == layer_cut::outputs && of.input) {
    own.input = {how.slices->share(of.input.size() / whole_.chosen().in_features, whole_.chosen().in_features),
                 of.input.shape()};
    whole_.backward(how, numbers, own);
    how.slices->sum(of.input.data());
    return;
  }
  whole_.backward(how, numbers, own);
}

}  // namespace troupe::model
