// Layers' checks of their samples, and the texts of their errors.

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

/// Rounds up to the next array's offset in the saved numbers. CUDA devices access arrays faster from there.
std::size_t aligned(const kernels::stream& on, std::size_t floats);

/// The most numbers of a sample.
inline constexpr std::size_t sample_max = (std::size_t{1} << 31) - 1;

/// Throws `error` with the text after the module's type.
[[noreturn]] void refuse(const module& of, const std::string& text);

/// Returns the shape of a batch's samples: [features], a sequence [steps, features], or an image [channels, height,
/// width]. Throws `error` for any other input.
troupe::shape sample_of(const module& of, const tensor_view& input);
/// Returns the shape of a batch of `count` samples.
troupe::shape batch_of(std::size_t count, const troupe::shape& sample);

/// Return the same as `sample_of`. Throw `error` unless samples are [features], or images, with the first length
/// `width`.
troupe::shape features_of(const module& of, const tensor_view& input, std::size_t width);
troupe::shape image_of(const module& of, const tensor_view& input);

/// Returns how many vectors of `width` numbers a batch has: samples of [width], or steps of sequences [steps, width].
/// Throws `error` for other samples.
std::size_t vectors_of(const module& of, const tensor_view& input, std::size_t width);

/// Returns the shape [steps, features] of a sample that is a sequence of `steps` steps, or can be read as one: a
/// one-channel image, whose rows are the steps, or features, cut into equal pieces. Null if it cannot. `steps` 0: any
/// number, which needs a sequence or an image.
std::optional<troupe::shape> find_sequence(const troupe::shape& sample, std::size_t steps);
/// Returns the same for a batch's samples. Throws `error` unless the samples are sequences with `features` in each
/// step.
troupe::shape sequence_of(const module& of, const tensor_view& input, std::size_t steps, std::size_t features);

/// Throws `error` unless samples can have the length that a layer expects; `name`: the option's.
void check_length(const char* kind, const char* name, std::size_t length);

/// Returns a shape as text for users, such as "12 x 28 x 28".
std::string lengths_text(const troupe::shape& of);
/// Returns the text for a sample that is not accepted, to follow "its input ".
std::string sample_text(const troupe::shape& of);

/// Fills in weights with PyTorch's bounds, uniform in ±1/sqrt(fan_in): weight i is a function of the key and `first` +
/// i.
void fill_uniform(std::uint64_t key, std::size_t first, std::size_t count, std::size_t fan_in, float* weights);

}  // namespace troupe::nn
