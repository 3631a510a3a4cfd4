// The embedding: its rows and positions, the order in which gradients are summed, and errors.

#include "nn/embedding.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "nn/elementwise.hpp"
#include "nn/sequential.hpp"
#include "tests/kernels/stream_support.hpp"
#include "tests/nn/layer_checks.hpp"

namespace troupe::nn::embedding_test {
namespace {

using kernels::test::same_bits;
using kernels::test::source_of_numbers;

reference_batch formula(const embedding::options& of, const reference_batch& x, const double*& parameters) {
  const std::size_t ids = x.width();
  const double* const positions = parameters + of.rows * of.dim;
  reference_batch y{{ids, of.dim}, x.size, {}};
  for (std::size_t i = 0; i < x.numbers.size(); ++i)
    for (std::size_t c = 0; c < of.dim; ++c)
      y.numbers.push_back(parameters[static_cast<std::size_t>(std::round(x.numbers[i] * of.scale)) * of.dim + c] +
                          (of.positions > 0 ? positions[i % ids * of.dim + c] : 0));
  parameters = positions + of.positions * of.dim;
  return y;
}

numbers_source ids_below(std::size_t rows, double scale = 1) {
  return [=](source_of_numbers& random, std::size_t count) {
    std::vector<float> ids(count);
    for (float& id : ids) id = static_cast<float>(random.below(rows)) / static_cast<float>(scale);
    return ids;
  };
}

template <class Place>
class Embedding : public kernels::test::stream_test<Place> {};
TYPED_TEST_SUITE(Embedding, kernels::test::each_device, kernels::test::device_names);

TYPED_TEST(Embedding, IsItsFormulaAndItsGradientsAreCentralDifferences) {
  source_of_numbers random(1);
  for (const layer_case& one : std::vector<layer_case>{
           {R"({"kind": "embedding", "rows": 7, "dim": 5})", {1}},
           {R"({"kind": "embedding", "rows": 3, "dim": 4})", {9}},
           {R"({"kind": "embedding", "rows": 6, "dim": 3, "positions": 5})", {5}},
           {R"({"kind": "embedding", "rows": 1, "dim": 1, "positions": 8})", {3}},
           {R"({"kind": "embedding", "rows": 9, "dim": 2, "positions": 12})", {1, 4, 3}},
           {R"({"kind": "embedding", "rows": 256, "dim": 1, "scale": 255})", {1, 5, 6}},
       }) {
    const auto options = *spec_of(one.json).template as<embedding>();
    const layer_check check{
        .formula = [&](const auto& x, const double*& parameters) { return formula(options, x, parameters); },
        .inputs = ids_below(options.rows, options.scale)};
    for (const std::size_t size : {1, 4}) expect_layer(this->on(), random, one, size, check);
  }
}

// Numbers around a million, and others in between: another order of summing gives other bits.
TYPED_TEST(Embedding, SumsGradientsBySampleAndThenByPosition) {
  constexpr std::size_t size = 6;
  constexpr std::size_t ids = 5;
  const embedding what({.rows = 2, .dim = 3, .positions = 7});
  source_of_numbers random(1);
  passes p(what, {size, ids}, ids_below(2)(random, size * ids));
  auto grad_y = random.numbers(size * ids * 3);
  for (std::size_t i = 0; i < grad_y.size(); ++i) grad_y[i] *= i % 7 < 2 ? 1e6F : 1;
  std::vector<float> expected(count_of(what.parameters()));
  for (std::size_t i = 0; i < size * ids; ++i)
    for (std::size_t c = 0; c < 3; ++c) {
      expected[static_cast<std::size_t>(p.x[i]) * 3 + c] += grad_y[i * 3 + c];
      expected[(2 + i % ids) * 3 + c] += grad_y[i * 3 + c];
    }
  EXPECT_TRUE(same_bits(device_passes(this->on(), p, grad_y).grad.parameters, expected));
}

TEST(EmbeddingLayer, BeginsWithNormalNumbersByNamePyTorchs) {
  const auto named = placed(embedding({.rows = 300, .dim = 8, .positions = 20}).parameters());
  EXPECT_EQ(named, (std::vector<parameter>{{"weight", {300, 8}, 0}, {"positions", {20, 8}, 2400}}));
  const auto numbers = initial_numbers(embedding({.rows = 300, .dim = 8}), 5).parameters;
  double sum = 0;
  double squares = 0;
  for (const float one : numbers) {
    sum += one;
    squares += static_cast<double>(one) * one;
  }
  EXPECT_NEAR(sum / 2400, 0, 0.1);  // five standard deviations
  EXPECT_NEAR(squares / 2400, 1, 0.15);
  EXPECT_EQ(layer_of(R"({"kind": "embedding", "rows": 3, "dim": 4})", {2})->multiply_adds(troupe::shape(5, 2)), 0U);
}

TEST(EmbeddingLayer, ShapesThatItCannotTakeAreRefused) {
  const auto refusal = [](const std::string& options, const troupe::shape& in) {
    const auto made = make_layers({spec_of(R"({"kind": "embedding", "rows": 3)" + options + "}")}, in);
    return made ? "taken" : made.error().message;
  };
  EXPECT_EQ(refusal(R"(, "dim": 4, "positions": 8)", {9}),
            "layer 0 (embedding): has 8 positions, and its input has 9 features; take 9 positions or more, or shorter "
            "samples");
  EXPECT_EQ(refusal(R"(, "dim": 4, "positions": 8)", {1, 3, 3}),
            "layer 0 (embedding): has 8 positions, and its input is an image of 1 x 3 x 3; take 9 positions or more, "
            "or shorter samples");
  EXPECT_EQ(refusal(R"(, "dim": 4)", {3, 3, 3}),
            "layer 0 (embedding): takes ids, as features or as an image of 1 channel, and its input is an image of "
            "3 x 3 x 3; leave it out, or put it first");
  EXPECT_EQ(refusal(R"(, "dim": 4)", {3, 3}),
            "layer 0 (embedding): takes ids, as features or as an image of 1 channel, and its input is a sequence of "
            "3 x 3; leave it out, or put it first");
  EXPECT_EQ(refusal(R"(, "dim": 65536)", {32768}),
            "layer 0 (embedding): its output of 32768 x 65536 has more than 2147483647 numbers a sample; take a "
            "smaller dim");
  // A scale that float32 rounds to 0.
  EXPECT_EQ(refusal_of([] { embedding({.rows = 3, .dim = 4, .scale = 1e-50}); }),
            "embedding: scale 1e-50: must be a number above 0 and at most 65536");
  EXPECT_EQ(refusal_of([] { embedding({.rows = 0, .dim = 4}); }),
            "embedding: rows 0: must be a whole number between 1 and 16777216");
  EXPECT_EQ(
      refusal_of([] { embedding({.rows = 3, .dim = 4}).output(troupe::shape(2, 3, 3)); }),
      "embedding: takes ids, as features or as an image of 1 channel, and its input is a sequence of 3 x 3; leave "
      "it out, or put it first");
}

TEST(EmbeddingLayer, WhatOtherLayersComputeIsRefused) {
  const auto refusal = [](const std::string& before) {
    const auto made = make_layers({spec_of(before), spec_of(R"({"kind": "embedding", "rows": 3, "dim": 4})")}, {3});
    return made ? "taken" : made.error().message;
  };
  const std::string said = "takes ids, and gets what another layer computes; put it first";
  EXPECT_EQ(refusal(R"({"kind": "relu"})"), "layer 1 (embedding): " + said);
  EXPECT_EQ(refusal(R"({"kind": "linear", "out": 2})"), "layer 1 (embedding): " + said);
  EXPECT_EQ(refusal(R"({"kind": "dropout", "rate": 0})"), "taken");
  const embedding what({.rows = 3, .dim = 4});
  EXPECT_EQ(refusal_of([&] { sequential(gelu(), what).output(troupe::shape(2, 3)); }), "embedding: " + said);
  EXPECT_EQ(refusal_of([&] { sequential(flatten(), what).output(troupe::shape(2, 1, 3, 3)); }), "nothing");
}

TEST(EmbeddingLayer, WhatIsNoIdIsRefusedWithItsRowAndColumn) {
  const auto refusal = [](const module& of, const troupe::shape& in, std::size_t place, float wrong) {
    std::vector<float> numbers(in.count());
    numbers[place] = wrong;
    return refusal_of([&] { check_ids(of, {in, numbers.data()}); });
  };
  const embedding what({.rows = 16, .dim = 2});
  EXPECT_EQ(refusal(what, {4, 5}, 17, 15), "nothing");
  EXPECT_EQ(refusal(what, {4, 5}, 17, 16),
            "embedding: row 3, column 2 (from 0): 16: must be a whole number between 0 and 15, an id");
  EXPECT_EQ(refusal(what, {4, 5}, 4, -1),
            "embedding: row 0, column 4 (from 0): -1: must be a whole number between 0 and 15, an id");
  EXPECT_EQ(refusal(what, {4, 5}, 5, 7.5F),
            "embedding: row 1, column 0 (from 0): 7.5: must be a whole number between 0 and 15, an id");
  EXPECT_EQ(refusal(what, {4, 5}, 5, nan_float),
            "embedding: row 1, column 0 (from 0): nan: must be a whole number between 0 and 15, an id");
  EXPECT_EQ(refusal(what, {2, 1, 3, 4}, 12 + 6, 99),
            "embedding: image 1, row 1, column 2 (from 0): 99: must be a whole number between 0 and 15, an id");
  const embedding of_pixels({.rows = 200, .dim = 2, .scale = 255});
  for (int pixel = 0; pixel < 256; ++pixel)
    EXPECT_EQ(refusal(of_pixels, {1, 1, 1, 2}, 1, static_cast<float>(pixel) / 255.0F)
                  .starts_with("embedding: image 0, row 0, column 1 (from 0): "),
              pixel >= 200)
        << pixel;
  // After a layer that does not change numbers, and inside networks.
  const sequential network(flatten(), what, gelu());
  EXPECT_EQ(refusal(network, {2, 1, 3, 4}, 12 + 6, 99),
            "sequential: image 1, row 1, column 2 (from 0): 99: must be a whole number between 0 and 15, an id");
  EXPECT_EQ(refusal(sequential(gelu(), flatten()), {2, 3}, 1, nan_float), "nothing");
}

}  // namespace
}  // namespace troupe::nn::embedding_test
