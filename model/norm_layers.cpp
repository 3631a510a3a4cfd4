// Layers that normalise.

#include <algorithm>
#include <span>
#include <vector>

#include "model/layers.hpp"

namespace troupe::model {

namespace {

/// Saves of each channel the batch's mean and variance, and the sums of the way back, those of this rank's batch and,
/// if it synchronizes, those of the gradient of the input: [4 or 6, channels].
class batch_norm_layer final : public layer {
 public:
  batch_norm_layer(const layer_spec& spec, const sample_shape& in)
      : layer(in, in),
        channels_(in[0]),
        eps_(static_cast<float>(spec.eps)),
        momentum_(static_cast<float>(spec.momentum)),
        has_weight_(spec.scale),
        synchronizes_(spec.synchronized) {}

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

  std::size_t saved(std::size_t /*size*/) const override { return (synchronizes_ ? 6 : 4) * channels_; }

  bool synchronizes() const override { return synchronizes_; }
  void stand_by_forward(rank_means& ranks) const override {
    if (!synchronizes_) return;
    std::vector<float> moments(2 * channels_);
    join_moments(0, moments, ranks);
  }
  void stand_by_backward(rank_means& ranks) const override {
    if (!synchronizes_) return;
    std::vector<float> sums(2 * channels_);
    join_sums(0, sums, ranks);
  }

  void forward(const pass& how, const numbers& of) const override {
    const auto shape = shape_of(how);
    const float* const mean = how.training ? of.saved : of.buffers;
    if (how.training && how.size > 0) {
      how.on.channel_moments(shape, of.input, of.saved, of.saved + channels_);
      double count = static_cast<double>(shape.of_channel());
      if (asks(how)) {
        std::vector<float> moments = on_host(how, of.saved);
        count = join_moments(count, moments, *how.ranks);
        to_device(how, moments, of.saved);
      }
      // Of one number there is no unbiased variance.
      const double unbiased = count > 1 ? count / (count - 1) : 1;
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
    float* const of_all = asks(how) ? sum + 2 * channels_ : sum;
    if (how.size == 0) return how.on.fill(2 * channels_, 0, sum);
    how.on.batch_norm_sums(shape, of.input, mean, mean + channels_, eps_, grad_output, sum, sum + channels_);
    if (asks(how)) {
      std::vector<float> sums = on_host(how, sum);
      join_sums(static_cast<double>(shape.of_channel()), sums, *how.ranks);
      to_device(how, sums, of_all);
    }
    if (grad_input != nullptr)
      how.on.batch_norm_backward_input(shape, of.input, mean, mean + channels_, eps_, weight(of), of_all,
                                       of_all + channels_, shape.of_channel(), grad_output, grad_input);
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
  bool asks(const pass& how) const { return synchronizes_ && how.ranks != nullptr; }

  /// Two numbers a channel. Waits for the stream.
  std::vector<float> on_host(const pass& how, const float* from) const {
    std::vector<float> copy(2 * channels_);
    how.on.download(from, copy.data(), copy.size() * sizeof(float));
    how.on.synchronize();
    return copy;
  }
  static void to_device(const pass& how, const std::vector<float>& from, float* to) {
    how.on.upload(from.data(), to, from.size() * sizeof(float));
    how.on.synchronize();  // the numbers go
  }

  /// Makes the moments [2, channels] of this rank's `count` numbers a channel those of all ranks' numbers, in two
  /// rounds: the means, and then the squared deviations from them, so that nothing cancels out. Returns how many
  /// numbers all ranks have.
  double join_moments(double count, std::span<float> moments, rank_means& ranks) const {
    std::vector<float> round(channels_ + 1);
    const auto own = static_cast<float>(count);
    for (std::size_t c = 0; c < channels_; ++c) round[c] = own * moments[c];
    round[channels_] = own;
    ranks.mean(round);
    const float share = round[channels_];  // of a rank, on average
    std::vector<float> deviations(channels_);
    for (std::size_t c = 0; c < channels_; ++c) {
      const float mean = round[c] / share;
      const float off = moments[c] - mean;
      deviations[c] = own * (moments[channels_ + c] + off * off);
      moments[c] = mean;
    }
    ranks.mean(deviations);
    for (std::size_t c = 0; c < channels_; ++c) moments[channels_ + c] = deviations[c] / share;
    return static_cast<double>(share) * ranks.ranks();
  }

  /// Makes the sums [2, channels] of this rank's `count` numbers a channel what they would be if its share of those of
  /// all ranks had their mean.
  void join_sums(double count, std::span<float> sums, rank_means& ranks) const {
    std::vector<float> round(sums.begin(), sums.end());
    round.push_back(static_cast<float>(count));
    ranks.mean(round);
    const float own = static_cast<float>(count) / round.back();
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = round[i] * own;
  }

  std::size_t channels_;
  float eps_;
  float momentum_;
  bool has_weight_;
  bool synchronizes_;
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
