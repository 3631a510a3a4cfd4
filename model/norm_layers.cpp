// Layers that normalise.

#include <algorithm>

#include "model/layers.hpp"

namespace troupe::model {

namespace {

/// Saves of each channel the batch's mean and variance, and the sums of the way back: [4, channels].
class batch_norm_layer final : public layer {
 public:
  batch_norm_layer(const layer_spec& spec, const sample_shape& in)
      : layer(in, in),
        channels_(in[0]),
        eps_(static_cast<float>(spec.eps)),
        momentum_(static_cast<float>(spec.momentum)),
        has_weight_(spec.scale) {}

  std::string kind() const override { return to_string(layer_kind::batch_norm); }

  std::vector<named_parameter> parameters() const override {
    if (!has_weight_) return {{"bias", {channels_}, 0}};
    return {{"weight", {channels_}, 0}, {"bias", {channels_}, channels_}};
  }

  std::vector<named_parameter> buffers() const override {
    return {{"running_mean", {channels_}, 0}, {"running_var", {channels_}, channels_}};
  }

  void initialize(std::uint64_t /*key*/, float* parameters, float* buffers) const override {
    if (has_weight_) std::fill_n(parameters, channels_, 1.0F);
    std::fill_n(parameters + bias_first(), channels_, 0.0F);
    std::fill_n(buffers, channels_, 0.0F);
    std::fill_n(buffers + channels_, channels_, 1.0F);
  }

  std::size_t saved(std::size_t /*size*/) const override { return 4 * channels_; }

  void forward(const pass& how, const numbers& of) const override {
    const auto shape = shape_of(how);
    const float* const mean = how.training ? of.saved : of.buffers;
    if (how.training && how.size > 0) {
      const std::size_t count = shape.of_channel();
      // Of one number there is no unbiased variance.
      const double unbiased = count > 1 ? static_cast<double>(count) / static_cast<double>(count - 1) : 1;
      how.on.channel_moments(shape, of.input, of.saved, of.saved + channels_);
      how.on.update_running(channels_, momentum_, 1, of.saved, of.buffers);
      how.on.update_running(channels_, momentum_, static_cast<float>(unbiased), of.saved + channels_,
                            of.buffers + channels_);
    }
    how.on.batch_norm_forward(shape, of.input, mean, mean + channels_, eps_, weight(of), of.parameters + bias_first(),
                              of.output);
  }

  void backward_input(const pass& how, const numbers& of, const float* grad_output, float* grad_input) const override {
    const auto shape = shape_of(how);
    const float* const mean = of.saved;
    float* const sum = of.saved + 2 * channels_;
    if (how.size == 0) return how.on.fill(2 * channels_, 0, sum);
    how.on.batch_norm_sums(shape, of.input, mean, mean + channels_, eps_, grad_output, sum, sum + channels_);
    if (grad_input != nullptr)
      how.on.batch_norm_backward_input(shape, of.input, mean, mean + channels_, eps_, weight(of), sum, sum + channels_,
                                       shape.of_channel(), grad_output, grad_input);
  }

  void backward_parameters(const pass& how, const numbers& of, const float* /*grad_output*/,
                           float* grad_parameters) const override {
    const float* const sum = of.saved + 2 * channels_;
    const std::size_t bytes = channels_ * sizeof(float);
    if (has_weight_) how.on.copy(sum + channels_, grad_parameters, bytes);
    how.on.copy(sum, grad_parameters + bias_first(), bytes);
  }

 private:
  kernels::channels_shape shape_of(const pass& how) const { return {how.size, channels_, count_of(in()) / channels_}; }
  std::size_t bias_first() const { return has_weight_ ? channels_ : 0; }
  const float* weight(const numbers& of) const { return has_weight_ ? of.parameters : nullptr; }

  std::size_t channels_;
  float eps_;
  float momentum_;
  bool has_weight_;
};

/// Saves of each sample the mean and 1 / sqrt(variance + eps): [2, size].
class layer_norm_layer final : public layer {
 public:
  layer_norm_layer(const layer_spec& spec, const sample_shape& in)
      : layer(in, in), width_(in[0]), eps_(static_cast<float>(spec.eps)) {}

  std::string kind() const override { return to_string(layer_kind::layer_norm); }

  std::vector<named_parameter> parameters() const override {
    return {{"weight", {width_}, 0}, {"bias", {width_}, width_}};
  }

  void initialize(std::uint64_t /*key*/, float* parameters, float* /*buffers*/) const override {
    std::fill_n(parameters, width_, 1.0F);
    std::fill_n(parameters + width_, width_, 0.0F);
  }

  std::size_t saved(std::size_t size) const override { return 2 * size; }

  void forward(const pass& how, const numbers& of) const override {
    how.on.layer_norm_forward(how.size, width_, of.input, eps_, of.parameters, of.parameters + width_, of.saved,
                              of.saved + how.size, of.output);
  }

  void backward_input(const pass& how, const numbers& of, const float* grad_output, float* grad_input) const override {
    if (grad_input != nullptr)
      how.on.layer_norm_backward_input(how.size, width_, of.input, of.saved, of.saved + how.size, of.parameters,
                                       grad_output, grad_input);
  }

  void backward_parameters(const pass& how, const numbers& of, const float* grad_output,
                           float* grad_parameters) const override {
    how.on.layer_norm_backward_parameters(how.size, width_, of.input, of.saved, of.saved + how.size, grad_output,
                                          grad_parameters, grad_parameters + width_);
  }

 private:
  std::size_t width_;
  float eps_;
};

}  // namespace

layer_ptr make_batch_norm(const layer_spec& spec, const sample_shape& in) {
  return std::make_unique<batch_norm_layer>(spec, in);
}

layer_ptr make_layer_norm(const layer_spec& spec, const sample_shape& in) {
  return std::make_unique<layer_norm_layer>(spec, in);
}

}  // namespace troupe::model
