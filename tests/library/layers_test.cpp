// The layers of job files as modules: their numbers equal PyTorch's, backward passes match forward passes, and invalid
// options and inputs are refused.

#include "troupe/layers.hpp"
#include "tests/library/error_of.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "troupe/check_gradient.hpp"
#include "troupe/composition.hpp"
#include "troupe/error.hpp"

namespace troupe::layers_test {
namespace {

using test::input_error_of;

using floats = std::vector<float>;

/// Multiples of 1/8 around 0, which float32 represents exactly: (i factor mod divisor) - shift eighths.
floats eighths(std::size_t count, int factor, int divisor, int shift) {
  floats all(count);
  for (std::size_t i = 0; i < count; ++i)
    all[i] = static_cast<float>(static_cast<int>(i) * factor % divisor - shift) / 8;
  return all;
}

tensor some_input(const shape& lengths) { return tensor::of<float>(lengths, eighths(lengths.count(), 5, 13, 6)); }

floats some_parameters(const nn::module& of) { return eighths(count_of(of.parameters()), 7, 11, 5); }

floats initial_buffers(const nn::module& of) { return nn::initial_numbers(of, 1).buffers; }

/// Returns the output for `some_input` with `some_parameters`; a training pass writes to `buffers`.
floats output_of(const nn::module& of, const shape& input, bool training = true, floats* buffers = nullptr,
                 std::uint64_t key = 0) {
  const tensor x = some_input(input);
  const floats parameters = some_parameters(of);
  const auto tensors = nn::placed(of.parameters());
  const auto statistics = nn::placed(of.buffers());
  const shape lengths = of.output(x);
  floats output(lengths.count());
  floats saved(of.saved(x, kernels::host_stream()));
  of.forward({.stream = kernels::host_stream(), .training = training, .key = key},
             {.parameters = {parameters.data(), tensors},
              .buffers = {buffers == nullptr ? nullptr : buffers->data(), statistics},
              .input = x,
              .output = {output.data(), lengths},
              .saved = saved});
  return output;
}

void expect_near(const floats& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-6) << i;
}

// -- forward: literals of torch.nn.functional in float64 --------------------------------------

TEST(Layers, MultiplyWithAndWithoutBias) {
  // Input [[-6, -1], [4, -4]] / 8, weight [[-5, 2], [-2, 5]] / 8, bias [1, -3] / 8.
  EXPECT_EQ(output_of(nn::linear(2, 2), {2, 2}),
            (floats{28.F / 64 + 8.F / 64, 7.F / 64 - 24.F / 64, -28.F / 64 + 8.F / 64, -28.F / 64 - 24.F / 64}));
  const nn::linear plain(2, 2, false);
  ASSERT_EQ(plain.parameters().size(), 1U);
  EXPECT_EQ(output_of(plain, {2, 2}), (floats{28.F / 64, 7.F / 64, -28.F / 64, -28.F / 64}));
}

TEST(Layers, ConvolveAsPyTorch) {
  const nn::conv2d strided({.in_channels = 2, .out_channels = 2, .kernel = 3, .stride = 2, .padding = 1});
  expect_near(output_of(strided, {1, 2, 4, 4}),
              {-0.046875, 0.90625, 0.921875, -0.59375, 0.78125, -0.109375, 1.0625, 0.078125});
  const nn::conv2d plain({.in_channels = 2, .out_channels = 2, .kernel = 3, .bias = false});
  EXPECT_EQ(plain.parameters().size(), 1U);
  expect_near(output_of(plain, {1, 2, 4, 4}),
              {-0.984375, 1.40625, -0.359375, -1.21875, 0.25, 0.3125, -1.328125, -0.046875});
}

TEST(Layers, PoolAsPyTorch) {
  expect_near(output_of(nn::max_pool2d(2), {1, 2, 4, 4}), {0.75, 0.5, 0.25, 0.625, 0.375, 0.75, 0.5, 0.75});
  expect_near(output_of(nn::max_pool2d(3, 1), {1, 1, 4, 4}), {0.75, 0.75, 0.75, 0.75});
  expect_near(output_of(nn::avg_pool2d(2), {1, 2, 4, 4}),
              {0.0, 0.03125, -0.28125, 0.15625, -0.15625, 0.28125, -0.03125, 0.0});
  expect_near(output_of(nn::avg_pool2d(3, 1), {1, 1, 4, 4}), {0.0277778, 0.1111111, 0.0, 0.0833333});
  expect_near(output_of(nn::global_avg_pool2d(), {1, 2, 4, 4}), {-0.0234375, 0.0234375});
}

TEST(Layers, NormaliseBatchesAsPyTorch) {
  const nn::batch_norm images({.channels = 2, .eps = 0.01, .momentum = 0.25});
  floats buffers = initial_buffers(images);
  EXPECT_EQ(buffers, (floats{0, 0, 1, 1}));
  expect_near(output_of(images, {2, 2, 1, 3}, true, &buffers),
              {0.5448033, -0.277407, -1.0996173, 0.3070787, 0.6359628, 0.9648469, -0.112965, -0.9351752, 0.3803612,
               0.570186, 0.8990701, 0.3728555});
  expect_near(buffers, {-0.0364583, 0.0260417, 0.8147135, 0.8147135});
}

TEST(Layers, KeepRunningStatisticsAsPyTorch) {
  const nn::batch_norm features({.channels = 3, .scale = false});
  floats buffers = initial_buffers(features);
  expect_near(output_of(features, {4, 3}, true, &buffers),
              {-1.9665549, -1.0915549, 0.5092452, -1.072185, -0.197185, 0.9430996, -0.177815, 0.697185, -1.4430996,
               0.7165549, 1.5915549, -1.0092452});
  expect_near(buffers, {-0.0375, 0.025, 0.00625, 0.9104167, 0.9104167, 0.9442708});
}

TEST(Layers, EvaluateByRunningStatisticsAndKeepThem) {
  const nn::batch_norm images({.channels = 2, .eps = 0.01, .momentum = 0.25});
  const floats before = {-0.0364583F, 0.0260417F, 0.8147135F, 0.8147135F};
  floats buffers = before;
  expect_near(output_of(images, {2, 2, 1, 3}, false, &buffers),
              {0.241075, -0.1890637, -0.6192023, 0.4801867, 0.6522421, 0.8242976, -0.103036, -0.5331746, 0.1550472,
               0.617831, 0.7898865, 0.5145977});
  EXPECT_EQ(buffers, before);
}

TEST(Layers, NormaliseRowsAndCrossAsPyTorch) {
  expect_near(output_of(nn::layer_norm(5), {2, 5}), {0.4714774, 0.514108, -0.3668069, -0.9937785, 0.4525938, -1.2897197,
                                                     0.3431909, -0.1698765, -1.3820511, 0.3619326});
  expect_near(output_of(nn::gelu(), {1, 6}), {-0.1699705, -0.0562827, 0.3457312, -0.1542688, 0.0687173, 0.5800295});
  expect_near(output_of(nn::low_rank_cross(3, 2, 2), {2, 3}),
              {-0.5509729, -0.1048555, 1.1482868, -0.2730122, 0.1227751, 1.8211069});
}

TEST(Layers, FlattenImages) {
  const tensor x = some_input({2, 3, 2, 2});
  EXPECT_EQ(nn::flatten().output(x), shape(2, 12));
  EXPECT_EQ(output_of(nn::flatten(), {2, 3, 2, 2}), floats(x.as<float>().begin(), x.as<float>().end()));
}

TEST(Layers, DropByTheKeyInTrainingOnly) {
  const nn::dropout some(0.75);
  EXPECT_TRUE(some.uses_key());
  EXPECT_FALSE(nn::dropout(0).uses_key());
  const tensor x = some_input({4, 1000});
  const floats output = output_of(some, {4, 1000}, true, nullptr, 5);
  int kept = 0;
  int inputs = 0;
  for (std::size_t i = 0; i < output.size(); ++i) {
    const float one = x.as<float>()[i];
    if (one == 0) continue;
    ++inputs;
    kept += output[i] != 0 ? 1 : 0;
    EXPECT_TRUE(output[i] == 0 || output[i] == 4 * one) << i;
  }
  // A binomial distribution's mean, with a tolerance of five standard deviations.
  EXPECT_NEAR(kept, inputs * 0.25, 5 * std::sqrt(inputs * 0.25 * 0.75));
  EXPECT_EQ(output_of(some, {4, 1000}, true, nullptr, 5), output);
  EXPECT_NE(output_of(some, {4, 1000}, true, nullptr, 6), output);
  EXPECT_EQ(output_of(some, {4, 1000}, false, nullptr, 5), floats(x.as<float>().begin(), x.as<float>().end()));
  EXPECT_EQ(output_of(nn::dropout(0), {4, 1000}), floats(x.as<float>().begin(), x.as<float>().end()));
}

// -- backward ---------------------------------------------------------------------------------

/// Distinct numbers, at least a twentieth apart and away from 0: every window has one maximum.
tensor spread_input(const shape& lengths) {
  tensor x(lengths);
  const std::size_t count = x.count();
  for (std::size_t i = 0; i < count; ++i)
    x.as<float>()[i] = 0.06F * (static_cast<float>(i * 37 % 97 % count) - static_cast<float>(count) / 2 + 0.5F);
  return x;
}

std::string wrong_with(const nn::module& of, const shape& input, bool training = true) {
  return input_error_of([&] { nn::check_gradient(of, spread_input(input), {.training = training}); });
}

TEST(LayerGradients, AreThoseOfForward) {
  const std::string right = "no error";
  EXPECT_EQ(wrong_with(nn::conv2d({.in_channels = 2, .out_channels = 3, .kernel = 3, .stride = 2, .padding = 1}),
                       {2, 2, 4, 3}),
            right);
  EXPECT_EQ(wrong_with(nn::conv2d({.in_channels = 1, .out_channels = 2, .kernel = 2, .bias = false}), {3, 1, 3, 3}),
            right);
  EXPECT_EQ(wrong_with(nn::max_pool2d(2), {1, 2, 4, 4}), right);
  EXPECT_EQ(wrong_with(nn::max_pool2d(3, 1), {1, 2, 4, 4}), right);
  EXPECT_EQ(wrong_with(nn::avg_pool2d(2, 1), {1, 2, 3, 4}), right);
  EXPECT_EQ(wrong_with(nn::global_avg_pool2d(), {2, 2, 3, 2}), right);
  EXPECT_EQ(wrong_with(nn::batch_norm({.channels = 3}), {2, 3, 2, 2}), right);
  EXPECT_EQ(wrong_with(nn::batch_norm({.channels = 3, .scale = false}), {5, 3}), right);
  EXPECT_EQ(wrong_with(nn::layer_norm(6), {4, 6}), right);
  EXPECT_EQ(wrong_with(nn::gelu(), {4, 6}), right);
  EXPECT_EQ(wrong_with(nn::dropout(0.5), {4, 6}), right);
  EXPECT_EQ(wrong_with(nn::dropout(0.5), {4, 6}, false), right);
  EXPECT_EQ(wrong_with(nn::flatten(), {2, 2, 3, 2}), right);
  EXPECT_EQ(wrong_with(nn::low_rank_cross(4, 2, 3), {4, 4}), right);
}

TEST(LayerGradients, AreRightWithinOtherModules) {
  const auto conv = [](std::size_t in, std::size_t out) {
    return nn::conv2d({.in_channels = in, .out_channels = out, .kernel = 3, .padding = 1, .bias = false});
  };
  EXPECT_EQ(wrong_with(nn::sequential(nn::batch_norm({.channels = 4}), nn::linear(4, 3)), {5, 4}), "no error");
  EXPECT_EQ(wrong_with(nn::sequential(nn::residual(nn::sequential(nn::layer_norm(6), nn::linear(6, 12), nn::gelu(),
                                                                  nn::dropout(0.25), nn::linear(12, 6))),
                                      nn::linear(6, 2)),
                       {4, 6}),
            "no error");
  EXPECT_EQ(wrong_with(nn::sequential(conv(1, 2), nn::batch_norm({.channels = 2}),
                                      nn::residual(nn::sequential(conv(2, 2), nn::gelu())), nn::avg_pool2d(2),
                                      nn::flatten(), nn::low_rank_cross(8, 2, 1)),
                       {3, 1, 4, 4}),
            "no error");
}

// -- errors -------------------------------------------------------------------------------------

TEST(LayerRefusals, OfOptions) {
  EXPECT_EQ(input_error_of([] { nn::conv2d({.in_channels = 1, .out_channels = 2}); }),
            "conv2d: kernel 0: must be a whole number between 1 and 1024");
  EXPECT_EQ(input_error_of([] { nn::conv2d({.out_channels = 2, .kernel = 3}); }),
            "conv2d: in_channels 0: must be a whole number between 1 and 2147483647");
  EXPECT_EQ(input_error_of([] { nn::conv2d({.in_channels = 2, .kernel = 3}); }),
            "conv2d: out_channels 0: must be a whole number between 1 and 65536");
  EXPECT_EQ(input_error_of([] { nn::conv2d({.in_channels = 2, .out_channels = 2, .kernel = 3, .stride = 0}); }),
            "conv2d: stride 0: must be a whole number between 1 and 1024");
  EXPECT_EQ(input_error_of([] { nn::max_pool2d(0); }),
            "max_pool2d: kernel 0: must be a whole number between 1 and 1024");
  EXPECT_EQ(input_error_of([] { nn::avg_pool2d(2, 2000); }),
            "avg_pool2d: stride 2000: must be a whole number between 1 and 1024");
  EXPECT_EQ(input_error_of([] { nn::batch_norm({}); }),
            "batch_norm: channels 0: must be a whole number between 1 and 2147483647");
  EXPECT_EQ(input_error_of([] { nn::batch_norm({.channels = 2, .momentum = 1.5}); }),
            "batch_norm: momentum 1.5: must be a number between 0 and 1");
  EXPECT_EQ(input_error_of([] { nn::layer_norm(4, 0); }), "layer_norm: eps 0: must be a number above 0 and at most 1");
  EXPECT_EQ(input_error_of([] { nn::layer_norm(0); }),
            "layer_norm: features 0: must be a whole number between 1 and 2147483647");
  EXPECT_EQ(input_error_of([] { nn::dropout(1); }), "dropout: rate 1: must be a number of at least 0 and below 1");
  EXPECT_EQ(input_error_of([] { nn::dropout(NAN); }), "dropout: rate nan: must be a number of at least 0 and below 1");
  EXPECT_EQ(input_error_of([] { nn::low_rank_cross(4, 2, 0); }),
            "low_rank_cross: layers 0: must be a whole number between 1 and 64");
}

std::string refusal_of(const nn::module& what, const tensor& input) {
  return input_error_of([&] { what.output(input); });
}

TEST(LayerRefusals, OfInputs) {
  EXPECT_EQ(refusal_of(nn::gelu(), tensor({2, 3}, dtype::f64)),
            "gelu: takes float32, at least 1 number, not [2, 3] of float64");
  EXPECT_EQ(refusal_of(nn::flatten(), tensor({2, 3, 4, 5, 6})),
            "flatten: takes [n, features], [n, steps, features] or [n, channels, height, width] of float32, each at "
            "least 1, not [2, 3, 4, 5, 6] of float32");
  EXPECT_EQ(
      refusal_of(nn::batch_norm({.channels = 3}), tensor({2, 3, 4})),
      "batch_norm: takes features or images, and its input is a sequence of 3 x 4; put a flatten layer before it");
  EXPECT_EQ(refusal_of(nn::dropout(0.5), tensor({0, 3})),
            "dropout: takes float32, at least 1 number, not [0, 3] of float32");
  EXPECT_EQ(refusal_of(nn::conv2d({.in_channels = 1, .out_channels = 2, .kernel = 3}), tensor({1, 2, 4, 4})),
            "conv2d: is made for images of 1 channels, and its input is an image of 2 x 4 x 4");
  EXPECT_EQ(refusal_of(nn::conv2d({.in_channels = 1, .out_channels = 2, .kernel = 3}), tensor({1, 1, 2, 4})),
            "conv2d: its kernel of 3 x 3 does not fit into an image of 1 x 2 x 4 with a padding of 0; take a smaller "
            "kernel or more padding");
  EXPECT_EQ(refusal_of(nn::max_pool2d(2), tensor({1, 12})),
            "max_pool2d: takes images of channels x height x width, and its input has 12 features; leave it out");
  EXPECT_EQ(refusal_of(nn::batch_norm({.channels = 3}), tensor({2, 4})),
            "batch_norm: is made for 3 channels, and its input has 4 features");
  EXPECT_EQ(refusal_of(nn::layer_norm(4), tensor({2, 1, 2, 2})),
            "layer_norm: takes [features], and its input is an image of 1 x 2 x 2; put a flatten layer before it");
  EXPECT_EQ(refusal_of(nn::sequential(nn::conv2d({.in_channels = 1, .out_channels = 2, .kernel = 3}), nn::flatten(),
                                      nn::linear(9, 2)),
                       tensor({1, 1, 4, 4})),
            "linear: takes [n, 9] of float32 with n at least 1, not [1, 8] of float32");
}

TEST(LayerRefusals, AreNotForOtherSizesOfWhatALayerIsMadeFor) {
  const nn::conv2d conv({.in_channels = 1, .out_channels = 2, .kernel = 3});
  EXPECT_EQ(conv.output(some_input({1, 1, 3, 3})), shape(1, 2, 1, 1));
  EXPECT_EQ(conv.output(some_input({5, 1, 7, 4})), shape(5, 2, 5, 2));
  const nn::batch_norm norm({.channels = 2});
  EXPECT_EQ(norm.output(some_input({5, 2})), shape(5, 2));
  EXPECT_EQ(norm.output(some_input({5, 2, 3, 1})), shape(5, 2, 3, 1));
}

}  // namespace
}  // namespace troupe::layers_test
