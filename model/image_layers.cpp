// Layers of images: convolution and pooling.

#include "model/layers.hpp"

namespace troupe::model {

namespace {

class conv2d_layer final : public layer {
 public:
  conv2d_layer(const sample_shape& in, const kernels::conv2d_shape& shape, bool has_bias)
      : layer(in, {shape.out_channels, shape.out_height(), shape.out_width()}), shape_(shape), has_bias_(has_bias) {}

  std::string kind() const override { return to_string(layer_kind::conv2d); }

  std::vector<named_parameter> parameters() const override {
    std::vector<named_parameter> all{
        {"weight", {shape_.out_channels, shape_.in_channels, shape_.kernel, shape_.kernel}}};
    if (has_bias_) all.push_back({"bias", {shape_.out_channels}, shape_.weights()});
    return all;
  }

  void initialize(std::uint64_t key, float* parameters, float* /*buffers*/) const override {
    const std::size_t count = shape_.weights() + (has_bias_ ? shape_.out_channels : 0);
    fill_uniform(key, 0, count, shape_.in_channels * shape_.kernel * shape_.kernel, parameters);
  }

  std::uint64_t multiply_adds() const override {
    return std::uint64_t{shape_.weights()} * shape_.out_height() * shape_.out_width();
  }

  void forward(const pass& how, const numbers& of) const override {
    const float* const bias = has_bias_ ? of.parameters + shape_.weights() : nullptr;
    how.on.conv2d_forward(shape_, how.size, of.input, of.parameters, bias, of.output);
  }

  void backward_input(const pass& how, const numbers& of, const float* grad_output, float* grad_input) const override {
    if (grad_input != nullptr) how.on.conv2d_backward_input(shape_, how.size, of.parameters, grad_output, grad_input);
  }

  void backward_parameters(const pass& how, const numbers& of, const float* grad_output,
                           float* grad_parameters) const override {
    float* const grad_bias = has_bias_ ? grad_parameters + shape_.weights() : nullptr;
    how.on.conv2d_backward_parameters(shape_, how.size, of.input, grad_output, grad_parameters, grad_bias);
  }

 private:
  kernels::conv2d_shape shape_;
  bool has_bias_;
};

class pool2d_layer final : public layer {
 public:
  pool2d_layer(layer_kind kind, const sample_shape& in, const sample_shape& out, const kernels::pool2d_shape& shape)
      : layer(in, out), kind_(kind), shape_(shape) {}

  std::string kind() const override { return to_string(kind_); }

  void forward(const pass& how, const numbers& of) const override {
    if (kind_ == layer_kind::max_pool2d)
      how.on.max_pool2d_forward(shape_, how.size, of.input, of.output);
    else
      how.on.avg_pool2d_forward(shape_, how.size, of.input, of.output);
  }

  void backward_input(const pass& how, const numbers& of, const float* grad_output, float* grad_input) const override {
    if (grad_input == nullptr) return;
    if (kind_ == layer_kind::max_pool2d)
      how.on.max_pool2d_backward(shape_, how.size, of.input, grad_output, grad_input);
    else
      how.on.avg_pool2d_backward(shape_, how.size, grad_output, grad_input);
  }

 private:
  layer_kind kind_;
  kernels::pool2d_shape shape_;
};

}  // namespace

kernels::conv2d_shape conv2d_shape_of(const layer_spec& spec, const sample_shape& in) {
  return {in[0], in[1], in[2], spec.out_channels, spec.kernel, spec.stride, spec.padding};
}

kernels::pool2d_shape pool2d_shape_of(const layer_spec& spec, const sample_shape& in) {
  if (spec.kind == layer_kind::global_avg_pool2d) return {in[0], in[1], in[2], in[1], in[2], 1};
  return {in[0], in[1], in[2], spec.kernel, spec.kernel, spec.stride > 0 ? spec.stride : spec.kernel};
}

layer_ptr make_conv2d(const layer_spec& spec, const sample_shape& in) {
  return std::make_unique<conv2d_layer>(in, conv2d_shape_of(spec, in), spec.bias);
}

layer_ptr make_pool2d(const layer_spec& spec, const sample_shape& in) {
  const auto shape = pool2d_shape_of(spec, in);
  const sample_shape out = spec.kind == layer_kind::global_avg_pool2d
                               ? sample_shape{in[0]}
                               : sample_shape{in[0], shape.out_height(), shape.out_width()};
  return std::make_unique<pool2d_layer>(spec.kind, in, out, shape);
}

}  // namespace troupe::model
