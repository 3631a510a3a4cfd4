#include "nn/batch_norm.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/device.hpp"
#include "nn/option_fields.hpp"
#include "nn/rank_means.hpp"
#include "nn/samples.hpp"

namespace troupe::nn {

const option_fields<batch_norm_options>& batch_norm_options::fields() {
  static const auto all = option_fields<batch_norm_options>()
                              .real("eps", &batch_norm_options::eps, "a number above 0 and at most 1",
                                    [](double x) { return x > 0 && x <= 1; })
                              .real("momentum", &batch_norm_options::momentum, "a number between 0 and 1",
                                    [](double x) { return x >= 0 && x <= 1; })
                              .truth("scale", &batch_norm_options::scale)
                              .truth("synchronized", &batch_norm_options::synchronized);
  return all;
}

batch_norm::batch_norm(const options& chosen) : layer(checked(chosen)) {
  check_length(options::kind, "channels", chosen.channels);
}

std::vector<parameter> batch_norm::parameters() const {
  if (!chosen_.scale) return {{"bias", {chosen_.channels}}};
  return {{"weight", {chosen_.channels}}, {"bias", {chosen_.channels}}};
}

std::vector<parameter> batch_norm::buffers() const {
  return {{"running_mean", {chosen_.channels}}, {"running_var", {chosen_.channels}}};
}

void batch_norm::initialize(std::uint64_t /*key*/, const tensor_list<float>& parameters,
                            const tensor_list<float>& buffers) const {
  if (chosen_.scale) std::ranges::fill(parameters[0], 1.0F);
  std::ranges::fill(parameters[parameters.size() - 1], 0.0F);
  std::ranges::fill(buffers[0], 0.0F);
  std::ranges::fill(buffers[1], 1.0F);
}

troupe::shape batch_norm::output(const tensor_view& input) const {
  const troupe::shape sample = sample_of(*this, input);
  if (sample.dimensions() == 2)
    refuse(*this, fmt::format("takes features or images, and its input {}; put a flatten layer before it",
                              sample_text(sample)));
  if (sample[0] != chosen_.channels)
    refuse(*this, fmt::format("is made for {} channels, and its input {}", chosen_.channels, sample_text(sample)));
  return input.shape();
}

/// For each channel: the batch's mean and variance, the backward sums of this rank's batch and, if it synchronizes, the
/// sums for the input's gradient: [4 or 6, channels].
std::size_t batch_norm::saved(const tensor_view& /*input*/, const kernels::stream& /*on*/) const {
  return (chosen_.synchronized ? 6 : 4) * chosen_.channels;
}

kernels::channels_shape batch_norm::shape_of(const tensor_view& input) const {
  return {input.shape()[0], chosen_.channels, input.shape().without_first().count() / chosen_.channels};
}

const float* batch_norm::weight(const pass_numbers& numbers) const {
  return chosen_.scale ? numbers.parameters[0].data() : nullptr;
}

/// Returns a copy of two numbers for each channel. Waits for the stream.
std::vector<float> batch_norm::on_host(const pass& how, const float* from) const {
  std::vector<float> copy(2 * chosen_.channels);
  how.stream.download(from, copy.data(), copy.size() * sizeof(float));
  how.stream.synchronize();
  return copy;
}

namespace {

void to_device(const pass& how, const std::vector<float>& from, float* to) {
  how.stream.upload(from.data(), to, from.size() * sizeof(float));
  how.stream.synchronize();  // `from` may be freed after this
}

}  // namespace

/// Replaces the moments [2, channels] of this rank's `count` numbers per channel by those of all ranks, in two rounds:
/// the means, then the squared deviations from them, so that nothing cancels out. Returns the total count of all ranks.
double batch_norm::join_moments(double count, std::span<float> moments, rank_means& ranks) const {
  const std::size_t channels = chosen_.channels;
  std::vector<float> round(channels + 1);
  const auto own = static_cast<float>(count);
  for (std::size_t c = 0; c < channels; ++c) round[c] = own * moments[c];
  round[channels] = own;
  ranks.mean(round);
  const float share = round[channels];  // the mean count of a rank
  std::vector<float> deviations(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const float mean = round[c] / share;
    const float off = moments[c] - mean;
    deviations[c] = own * (moments[channels + c] + off * off);
    moments[c] = mean;
  }
  ranks.mean(deviations);
  for (std::size_t c = 0; c < channels; ++c) moments[channels + c] = deviations[c] / share;
  return static_cast<double>(share) * ranks.ranks();
}

/// Replaces this rank's sums [2, channels] over `count` numbers per channel by the means of all ranks, times this
/// rank's count relative to the mean count.
void batch_norm::join_sums(double count, std::span<float> sums, rank_means& ranks) const {
  std::vector<float> round(sums.begin(), sums.end());
  round.push_back(static_cast<float>(count));
  ranks.mean(round);
  const float own = static_cast<float>(count) / round.back();
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = round[i] * own;
}

void batch_norm::update_moments(const pass& how, const pass_numbers& numbers) const {
  const std::size_t channels = chosen_.channels;
  const auto shape = shape_of(numbers.input);
  float* const mean = numbers.saved.data();
  how.stream.channel_moments(shape, numbers.input.as<float>().data(), mean, mean + channels);
  auto count = static_cast<double>(shape.of_channel());
  if (asks(how)) {
    std::vector<float> moments = on_host(how, mean);
    count = join_moments(count, moments, *how.ranks);
    to_device(how, moments, mean);
  }
  // One number has no unbiased variance.
  const double unbiased = count > 1 ? count / (count - 1) : 1;
  const auto momentum = static_cast<float>(chosen_.momentum);
  how.stream.update_running(channels, momentum, 1, mean, numbers.buffers[0].data());
  how.stream.update_running(channels, momentum, static_cast<float>(unbiased), mean + channels,
                            numbers.buffers[1].data());
}

void batch_norm::forward(const pass& how, const pass_numbers& numbers) const {
  const auto shape = shape_of(numbers.input);
  if (shape.batch == 0) {
    std::vector<float> moments(2 * chosen_.channels);
    if (how.training && asks(how)) join_moments(0, moments, *how.ranks);
    return;
  }
  if (how.training) update_moments(how, numbers);
  const float* const mean = how.training ? numbers.saved.data() : numbers.buffers.data();
  how.stream.batch_norm_forward(shape, numbers.input.as<float>().data(), mean, mean + chosen_.channels,
                                static_cast<float>(chosen_.eps), weight(numbers),
                                numbers.parameters[numbers.parameters.size() - 1].data(), numbers.output.data());
}

void batch_norm::backward_input(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  const std::size_t channels = chosen_.channels;
  const auto eps = static_cast<float>(chosen_.eps);
  const auto shape = shape_of(numbers.input);
  if (shape.batch == 0) {
    std::vector<float> sums(2 * channels);
    if (asks(how)) join_sums(0, sums, *how.ranks);
    return;
  }
  const float* const x = numbers.input.as<float>().data();
  const float* const mean = numbers.saved.data();
  float* const sum = numbers.saved.data() + 2 * channels;
  float* const of_all = asks(how) ? sum + 2 * channels : sum;
  how.stream.batch_norm_sums(shape, x, mean, mean + channels, eps, of.output.data(), sum, sum + channels);
  if (asks(how)) {
    std::vector<float> sums = on_host(how, sum);
    join_sums(static_cast<double>(shape.of_channel()), sums, *how.ranks);
    to_device(how, sums, of_all);
  }
  if (of.input)
    how.stream.batch_norm_backward_input(shape, x, mean, mean + channels, eps, weight(numbers), of_all,
                                         of_all + channels, shape.of_channel(), of.output.data(), of.input.data());
}

void batch_norm::backward(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  if (!how.is_second_backward) backward_input(how, numbers, of);
  if (!of.parameters) return;
  const float* const sum = numbers.saved.data() + 2 * chosen_.channels;
  const std::size_t bytes = chosen_.channels * sizeof(float);
  if (chosen_.scale) how.stream.copy(sum + chosen_.channels, of.parameters[0].data(), bytes);
  how.stream.copy(sum, of.parameters[of.parameters.size() - 1].data(), bytes);
}

}  // namespace troupe::nn
