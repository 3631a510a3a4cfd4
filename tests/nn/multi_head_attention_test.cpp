// Attention compared with its definition, step by step in double; and errors.

#include "nn/multi_head_attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "tests/kernels/stream_support.hpp"
#include "tests/nn/layer_checks.hpp"

namespace troupe::nn::multi_head_attention_test {
namespace {

using kernels::test::same_bits;
using kernels::test::source_of_numbers;

/// Computes one head's output for a sample's projected steps, [steps, 3 features], into its columns of `to`.
void attend(const multi_head_attention::options& of, std::size_t features, std::size_t steps, std::size_t head,
            const double* projected, double* to) {
  const std::size_t width = features / of.heads;
  const double* const query = projected + head * width;
  for (std::size_t t = 0; t < steps; ++t) {
    std::vector<double> share(of.causal ? t + 1 : steps);
    double sum = 0;
    for (std::size_t s = 0; s < share.size(); ++s) {
      double score = 0;
      for (std::size_t c = 0; c < width; ++c)
        score += query[t * 3 * features + c] * query[s * 3 * features + features + c];
      sum += share[s] = std::exp(score / std::sqrt(static_cast<double>(width)));
    }
    for (std::size_t s = 0; s < share.size(); ++s)
      for (std::size_t c = 0; c < width; ++c)
        to[t * features + head * width + c] += share[s] / sum * query[s * 3 * features + 2 * features + c];
  }
}

reference_batch formula(const multi_head_attention::options& of, const reference_batch& x, const double*& parameters) {
  const std::size_t steps = of.steps > 0 ? of.steps : x.shape[x.shape.dimensions() - 2];
  const std::size_t features = x.width() / steps;
  const double* const in_bias = parameters + 3 * features * features;
  const double* const out_weight = in_bias + 3 * features;
  const double* const out_bias = out_weight + features * features;
  const auto projected = reference_product(x.size * steps, features, 3 * features, x.numbers, parameters, in_bias);
  std::vector<double> made(x.numbers.size());
  for (std::size_t b = 0; b < x.size; ++b)
    for (std::size_t head = 0; head < of.heads; ++head)
      attend(of, features, steps, head, projected.data() + b * steps * 3 * features,
             made.data() + b * steps * features);
  parameters = out_bias + features;
  return {{steps, features}, x.size, reference_product(x.size * steps, features, features, made, out_weight, out_bias)};
}

template <class Place>
class Attention : public kernels::test::stream_test<Place> {};
TYPED_TEST_SUITE(Attention, kernels::test::each_device, kernels::test::device_names);

TYPED_TEST(Attention, IsItsFormulaAndItsGradientsAreCentralDifferences) {
  source_of_numbers random(1);
  for (const layer_case& one : std::vector<layer_case>{
           {R"({"kind": "multi_head_attention", "heads": 1})", {1, 3}},
           {R"({"kind": "multi_head_attention", "heads": 1, "causal": true})", {5, 4}},
           {R"({"kind": "multi_head_attention", "heads": 2})", {7, 6}},
           {R"({"kind": "multi_head_attention", "heads": 2, "causal": true})", {1, 2}},
           {R"({"kind": "multi_head_attention", "heads": 8})", {3, 8}},
           {R"({"kind": "multi_head_attention", "heads": 8, "causal": true})", {5, 16}},
           {R"({"kind": "multi_head_attention", "heads": 2, "causal": true})", {1, 3, 4}},
           {R"({"kind": "multi_head_attention", "heads": 3, "steps": 2})", {12}},
       }) {
    const auto options = *spec_of(one.json).template as<multi_head_attention>();
    const layer_check check{[&](const auto& x, const double*& parameters) { return formula(options, x, parameters); }};
    for (const std::size_t size : {1, 3}) expect_layer(this->on(), random, one, size, check);
  }
}

TYPED_TEST(Attention, RepeatsItsBits) {
  const multi_head_attention what({.features = 8, .heads = 2, .causal = true});
  source_of_numbers random(1);
  const passes p(what, {3, 9, 8}, random.numbers(3 * 9 * 8));
  const auto grad_y = random.numbers(3 * 9 * 8);
  const device_passes first(this->on(), p, grad_y);
  const device_passes second(this->on(), p, grad_y);
  EXPECT_TRUE(same_bits(first.y, second.y));
  EXPECT_TRUE(same_bits(first.grad.x, second.grad.x));
  EXPECT_TRUE(same_bits(first.grad.parameters, second.grad.parameters));
}

// The scores of these queries and keys are far beyond the range of exp in float32.
TEST(AttentionLayer, IsStableForLargeScores) {
  const multi_head_attention what({.features = 2, .heads = 1});
  passes p(what, {1, 3, 2}, {300, -300, 250, 300, -300, 10});
  const auto y = p.forward();
  for (const float one : y) EXPECT_TRUE(std::isfinite(one));
  for (const float one : p.backward(std::vector<float>(6, 1.0F)).x) EXPECT_TRUE(std::isfinite(one));
}

TEST(AttentionLayer, CausalStepsDoNotSeeWhatComesLater) {
  const multi_head_attention what({.features = 4, .heads = 2, .causal = true});
  source_of_numbers random(2);
  passes p(what, {1, 5, 4}, random.numbers(20));
  const auto before = p.forward();
  for (std::size_t i = 12; i < 20; ++i) p.x[i] += 1;
  const auto after = p.forward();
  EXPECT_TRUE(same_bits(std::vector(before.begin(), before.begin() + 12), {after.data(), 12}));
  EXPECT_FALSE(same_bits(before, after));
}

TEST(AttentionLayer, BeginsAsPyTorchs) {
  const multi_head_attention what({.features = 6, .heads = 2});
  EXPECT_EQ(placed(what.parameters()), (std::vector<parameter>{{"in_proj_weight", {18, 6}, 0},
                                                               {"in_proj_bias", {18}, 108},
                                                               {"out_proj.weight", {6, 6}, 126},
                                                               {"out_proj.bias", {6}, 162}}));
  const auto numbers = initial_numbers(what, 9).parameters;
  const auto expect_uniform = [&](std::size_t first, std::size_t count, double bound) {
    const std::span some = std::span(numbers).subspan(first, count);
    EXPECT_LE(*std::ranges::max_element(some), bound);
    EXPECT_GT(*std::ranges::max_element(some), 0.8 * bound);
    EXPECT_GE(*std::ranges::min_element(some), -bound);
    EXPECT_LT(*std::ranges::min_element(some), -0.8 * bound);
  };
  expect_uniform(0, 108, 0.5);  // sqrt(6 / (18 + 6))
  expect_uniform(126, 36, 1 / std::sqrt(6.0));
  for (std::size_t i = 108; i < 126; ++i) EXPECT_EQ(numbers[i], 0.0F);
  for (std::size_t i = 162; i < 168; ++i) EXPECT_EQ(numbers[i], 0.0F);
  EXPECT_EQ(what.multiply_adds(troupe::shape(2, 5, 6)), 2U * 5 * (4 * 36 + 2 * 5 * 6));
}

TEST(AttentionLayer, WhatItCannotTakeIsRefused) {
  const auto refusal = [](const std::string& options, const troupe::shape& in) {
    const auto made = make_layers({spec_of(R"({"kind": "multi_head_attention", )" + options + "}")}, in);
    return made ? "taken" : made.error().message;
  };
  const std::string heads =
      "heads 4: must be a whole number between 1 and 65536 that divides the features of a step (6)";
  EXPECT_EQ(refusal(R"("heads": 4)", {5, 6}), "layer 0 (multi_head_attention): " + heads);
  EXPECT_EQ(refusal_of([] { multi_head_attention({.features = 6, .heads = 4}); }), "multi_head_attention: " + heads);
  EXPECT_EQ(refusal(R"("heads": 4)", {8}),
            "layer 0 (multi_head_attention): takes sequences of steps x features, which an image of 1 channel is too, "
            "and its input has 8 features; say how many steps they are (steps)");
  EXPECT_EQ(refusal(R"("heads": 4, "steps": 3)", {4, 8}),
            "layer 0 (multi_head_attention): takes sequences of 3 steps, and its input is a sequence of 4 x 8; take "
            "another number of steps");
  EXPECT_EQ(refusal(R"("heads": 4)", {30000, 4}),
            "layer 0 (multi_head_attention): its scores of 4 x 30000 x 30000 are more than 2147483647 numbers a "
            "sample; take shorter sequences or fewer heads");
  EXPECT_EQ(refusal_of([] { multi_head_attention({.features = 6, .heads = 2}).output(troupe::shape(2, 5, 4)); }),
            "multi_head_attention: is made for steps of 6 features, and its input is a sequence of 5 x 4");
}

}  // namespace
}  // namespace troupe::nn::multi_head_attention_test
