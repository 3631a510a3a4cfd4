// Convolutions of images: cuDNN's, and the bias.

#include "kernels/cuda/cuda_stream.hpp"

namespace troupe::kernels::cuda {
namespace {

bool is_aligned(const float* numbers) { return reinterpret_cast<std::uintptr_t>(numbers) % convolution_alignment == 0; }

channels_shape outputs_of(const conv2d_shape& shape, std::size_t batch) {
  return {batch, shape.out_channels, shape.out_height() * shape.out_width()};
}

/// A factor that is only read.
float* only_read(const float* numbers) { return const_cast<float*>(numbers); }

}  // namespace

/// Copies operands with an alignment that cuDNN does not accept, such as weights among others.
void cuda_stream::convolve(const convolution_key& key, convolution_operands operands) {
  device_.make_current();
  if (!convolutions_) convolutions_ = std::make_unique<convolutions>(handle_, precision_);
  struct operand {
    float*& numbers;
    std::size_t bytes;
    convolution_pass writes;  ///< the pass that writes it
    scratch& buffer;
    float* const given = numbers;
  };
  const conv2d_shape& shape = key.shape;
  operand all[] = {
      {operands.x, key.batch * shape.inputs() * sizeof(float), convolution_pass::backward_input, first_factor_},
      {operands.weight, shape.weights() * sizeof(float), convolution_pass::backward_weight, second_factor_},
      {operands.y, key.batch * shape.outputs() * sizeof(float), convolution_pass::forward, partial_sums_}};
  for (operand& one : all) {
    if (is_aligned(one.given)) continue;
    one.numbers = reinterpret_cast<float*>(grow(one.buffer, one.bytes));
    if (key.pass != one.writes) copy(one.given, one.numbers, one.bytes);
  }
  const std::size_t bytes = convolutions_->workspace_bytes(key);
  std::byte* const workspace = bytes > 0 ? grow(convolution_workspace_, bytes) : nullptr;
  {
    const auto turn = device_.graphs()->take_turn();
    convolutions_->run(key, operands, workspace);
  }
  for (const operand& one : all)
    if (key.pass == one.writes && one.numbers != one.given) copy(one.numbers, one.given, one.bytes);
}

void cuda_stream::conv2d_forward(const conv2d_shape& shape, std::size_t batch, const float* x, const float* weight,
                                 const float* bias, float* y) {
  if (batch * shape.outputs() == 0) return;
  convolve({shape, batch, convolution_pass::forward}, {only_read(x), only_read(weight), y});
  if (bias) add_channel_bias(outputs_of(shape, batch), bias, y);
}

void cuda_stream::conv2d_backward_input(const conv2d_shape& shape, std::size_t batch, const float* weight,
                                        const float* grad_y, float* grad_x) {
  if (batch * shape.outputs() == 0) return fill(batch * shape.inputs(), 0, grad_x);
  convolve({shape, batch, convolution_pass::backward_input}, {grad_x, only_read(weight), only_read(grad_y)});
}

void cuda_stream::conv2d_backward_parameters(const conv2d_shape& shape, std::size_t batch, const float* x,
                                             const float* grad_y, float* grad_weight, float* grad_bias) {
  if (batch * shape.outputs() == 0)
    fill(shape.weights(), 0, grad_weight);
  else
    convolve({shape, batch, convolution_pass::backward_weight}, {only_read(x), grad_weight, only_read(grad_y)});
  if (grad_bias) channel_sums(outputs_of(shape, batch), grad_y, grad_bias);
}

}  // namespace troupe::kernels::cuda
