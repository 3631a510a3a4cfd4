#include "nn/samples.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"
#include "kernels/device.hpp"
#include "kernels/random_bits.hpp"

namespace troupe::nn {

std::size_t aligned(const kernels::stream& on, std::size_t floats) {
  return on.device().is_host() ? floats : (floats + 63) / 64 * 64;
}

void refuse(const module& of, const std::string& text) {
  throw error(error_kind::input, fmt::format("{}: {}", of.type(), text));
}

troupe::shape sample_of(const module& of, const tensor_view& input) {
  const troupe::shape& batch = input.shape();
  const bool has_samples = batch.dimensions() >= 2 && batch.dimensions() <= 4 && batch.count() > 0;
  if (input.type() != dtype::f32 || !has_samples)
    refuse(of, fmt::format("takes [n, features], [n, steps, features] or [n, channels, height, width] of float32, each "
                           "at least 1, not {} of {}",
                           to_string(batch), name_of(input.type())));
  return batch.without_first();
}

troupe::shape batch_of(std::size_t count, const troupe::shape& sample) {
  troupe::shape batch(count);
  for (std::size_t i = 0; i < sample.dimensions(); ++i) batch.append(sample[i]);
  return batch;
}

troupe::shape features_of(const module& of, const tensor_view& input, std::size_t width) {
  const troupe::shape sample = sample_of(of, input);
  if (sample.dimensions() != 1)
    refuse(of, fmt::format("takes [features], and its input {}; put a flatten layer before it", sample_text(sample)));
  if (sample[0] != width)
    refuse(of, fmt::format("is made for {} features, and its input {}", width, sample_text(sample)));
  return sample;
}

troupe::shape image_of(const module& of, const tensor_view& input) {
  const troupe::shape sample = sample_of(of, input);
  if (sample.dimensions() != 3)
    refuse(of, fmt::format("takes images of channels x height x width, and its input {}; leave it out",
                           sample_text(sample)));
  return sample;
}

std::size_t vectors_of(const module& of, const tensor_view& input, std::size_t width) {
  const troupe::shape sample = sample_of(of, input);
  if (sample.dimensions() != 2) return features_of(of, input, width).count() / width * input.shape()[0];
  if (sample[1] != width)
    refuse(of, fmt::format("is made for steps of {} features, and its input {}", width, sample_text(sample)));
  return input.shape()[0] * sample[0];
}

std::optional<troupe::shape> find_sequence(const troupe::shape& sample, std::size_t steps) {
  const std::size_t lengths = sample.dimensions();
  const std::size_t numbers = sample.count();
  if (lengths == 1 ? steps == 0 || numbers % steps != 0 : lengths == 3 && sample[0] != 1) return std::nullopt;
  const std::size_t found = lengths == 1 ? steps : sample[lengths - 2];
  if (steps != 0 && steps != found) return std::nullopt;
  return troupe::shape(found, numbers / found);
}

troupe::shape sequence_of(const module& of, const tensor_view& input, std::size_t steps, std::size_t features) {
  const troupe::shape sample = sample_of(of, input);
  const bool has_rows = sample.dimensions() > 1;
  if (has_rows ? sample.dimensions() == 3 && sample[0] != 1 : steps == 0)
    refuse(of, fmt::format("takes sequences of steps x features, which an image of 1 channel is too, and its input {}; "
                           "{}",
                           sample_text(sample),
                           has_rows ? "put another layer before it" : "say how many steps they are (steps)"));
  const auto sequence = find_sequence(sample, steps);
  if (!sequence)
    refuse(of, fmt::format("takes sequences of {} steps, and its input {}; take another number of steps", steps,
                           sample_text(sample)));
  if ((*sequence)[1] != features)
    refuse(of, fmt::format("is made for steps of {} features, and its input {}", features, sample_text(sample)));
  return *sequence;
}

void check_length(const char* kind, const char* name, std::size_t length) {
  if (length == 0 || length > sample_max)
    throw error(error_kind::input,
                fmt::format("{}: {} {}: must be a whole number between 1 and {}", kind, name, length, sample_max));
}

std::string lengths_text(const troupe::shape& of) {
  std::string text;
  for (std::size_t i = 0; i < of.dimensions(); ++i) text += fmt::format("{}{}", i == 0 ? "" : " x ", of[i]);
  return text;
}

std::string sample_text(const troupe::shape& of) {
  if (of.dimensions() == 1) return fmt::format("has {} features", of[0]);
  return fmt::format("is {} of {}", of.dimensions() == 2 ? "a sequence" : "an image", lengths_text(of));
}

void fill_uniform(std::uint64_t key, std::size_t first, std::size_t count, std::size_t fan_in, float* weights) {
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(fan_in)));
  for (std::size_t i = 0; i < count; ++i) weights[i] = kernels::uniform(key, first + i, -bound, bound);
}

}  // namespace troupe::nn
