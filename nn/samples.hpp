// What layers check of the samples that they are given, and say of those that they cannot take.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "nn/module.hpp"

namespace troupe::nn {

/// The limits of options in job files.
inline constexpr std::size_t layer_width_max = 65536;
inline constexpr std::size_t window_max = 1024;

/// Rounds up to where the next array begins within what is saved. CUDA devices read and write arrays faster from there.
std::size_t aligned(const kernels::stream& on, std::size_t floats);

/// Most numbers of a sample.
inline constexpr std::size_t sample_max = (std::size_t{1} << 31) - 1;

/// Throws `error` with the module's type before the text.
[[noreturn]] void refuse(const module& of, const std::string& text);

/// Returns the lengths of a sample of a batch: [features], a sequence [steps, features], or an image [channels, height,
/// width]. Throws `error` if the input is no batch of these.
troupe::shape sample_of(const module& of, const tensor_view& input);
/// Returns the shape of a batch of `count` such samples.
troupe::shape batch_of(std::size_t count, const troupe::shape& sample);

/// Return the same as `sample_of`. Throw `error` unless samples are [features], or images, the first length `width`.
troupe::shape features_of(const module& of, const tensor_view& input, std::size_t width);
troupe::shape image_of(const module& of, const tensor_view& input);

/// Returns how many vectors of `width` numbers a batch has: its samples of [width], or the steps of all its sequences
/// [steps, width]. Throws `error` if it has others.
std::size_t vectors_of(const module& of, const tensor_view& input, std::size_t width);

/// Returns the shape [steps, features] of a sample that is a sequence of `steps` steps, or is taken as one: an image of
/// one channel, whose rows are the steps, or features, cut into so many equal pieces. Null: it cannot be. `steps` 0: of
/// any number, which features do not say.
std::optional<troupe::shape> find_sequence(const troupe::shape& sample, std::size_t steps);
/// Returns the same of a batch's samples. Throws `error` unless they are such sequences with steps of `features`.
troupe::shape sequence_of(const module& of, const tensor_view& input, std::size_t steps, std::size_t features);

/// Throws `error` unless a length that a layer takes of its samples is one that they can have; `name` is the option's.
void check_length(const char* kind, const char* name, std::size_t length);

/// Returns a shape for people, such as "12 x 28 x 28".
std::string lengths_text(const troupe::shape& of);
/// Returns a sample that cannot be taken, for after "its input ".
std::string sample_text(const troupe::shape& of);

/// Fills in weights as PyTorch bounds them, uniform in ±1/sqrt(fan_in): weight i is a function of the key and
/// `first` + i.
void fill_uniform(std::uint64_t key, std::size_t first, std::size_t count, std::size_t fan_in, float* weights);

}  // namespace troupe::nn
