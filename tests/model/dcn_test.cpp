// The hybrid model with interaction `dcn` against DLRM-DCNv2 in double: values and gradients.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "model/hybrid.hpp"
#include "tests/kernels/support.hpp"
#include "tests/model/reference_network.hpp"
#include "tests/nn/passes.hpp"

namespace troupe::model::dcn_test {
namespace {

using kernels::test::source_of_numbers;

struct dcn_shape {
  std::size_t dense;
  std::size_t tables;
  std::size_t dim;
  std::vector<std::size_t> bottom_hidden;
  std::size_t rank;
  std::size_t layers;
  std::vector<std::size_t> hidden;

  bool has_bottom() const { return dense > 0 && tables > 0; }
  std::size_t in() const { return dense + tables * dim; }
  /// The width of the cross layers.
  std::size_t width() const { return has_bottom() ? (1 + tables) * dim : in(); }
};

std::vector<dcn_shape> dcn_shapes() {
  return {{6, 8, 8, {64}, 5, 3, {64, 32}}, {3, 1, 1, {}, 1, 1, {}},  {1, 2, 3, {5}, 9, 2, {4}},
          {0, 2, 7, {}, 4, 3, {6}},        {0, 1, 16, {}, 3, 1, {}}, {13, 26, 4, {9}, 6, 2, {5}},
          {5, 0, 1, {}, 2, 2, {7}}};
}

job job_of(const dcn_shape& s) {
  job what;
  what.interaction = interaction_kind::dcn;
  what.cross_rank = s.rank;
  what.cross_layers = s.layers;
  if (s.has_bottom()) what.bottom_hidden = s.bottom_hidden;
  what.hidden = s.hidden;
  what.loss = loss_kind::mse;
  return what;
}

data_spec spec_of(const dcn_shape& s) {
  data_spec spec;
  spec.tables.assign(s.tables, {10, s.dim});
  spec.dense_features = s.dense;
  spec.outputs = 2;
  return spec;
}

std::string text(const dcn_shape& s) {
  return testing::PrintToString(std::vector<std::size_t>{s.dense, s.tables, s.dim, s.rank, s.layers}) +
         testing::PrintToString(s.bottom_hidden) + testing::PrintToString(s.hidden);
}

using doubles = std::vector<double>;

/// y[o] = the sum of w[o, i] x[i].
doubles product(const double* w, std::size_t out, const doubles& x) {
  doubles y(out, 0);
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t i = 0; i < x.size(); ++i) y[o] += w[o * x.size() + i] * x[i];
  return y;
}

std::size_t count_of_mlp(const std::vector<std::size_t>& widths) {
  std::size_t count = 0;
  for (std::size_t l = 0; l + 1 < widths.size(); ++l) count += (widths[l] + 1) * widths[l + 1];
  return count;
}

std::vector<std::size_t> joined(std::size_t first, const std::vector<std::size_t>& middle, std::size_t last) {
  std::vector<std::size_t> all{first};
  all.insert(all.end(), middle.begin(), middle.end());
  all.push_back(last);
  return all;
}

/// DLRM-DCNv2 in double, sample by sample, with parameters and input laid out as in `hybrid_model`.
struct reference_dcn {
  dcn_shape s;

  doubles forward(std::size_t batch, const doubles& parameters, const doubles& input) const {
    doubles outputs;
    for (std::size_t b = 0; b < batch; ++b) {
      const auto begin = input.begin() + static_cast<std::ptrdiff_t>(b * s.in());
      const doubles y = sample(parameters, {begin, begin + static_cast<std::ptrdiff_t>(s.in())});
      outputs.insert(outputs.end(), y.begin(), y.end());
    }
    return outputs;
  }

  doubles sample(const doubles& parameters, doubles x) const {
    std::size_t first = 0;
    if (s.has_bottom()) {
      const reference_network bottom{joined(s.dense, s.bottom_hidden, s.dim)};
      const auto end = x.begin() + static_cast<std::ptrdiff_t>(s.dense);
      doubles vectors = bottom.forward(1, parameters, {x.begin(), end});
      for (double& one : vectors) one = std::max(one, 0.0);
      vectors.insert(vectors.end(), end, x.end());
      x = std::move(vectors);
      first = count_of_mlp(bottom.widths);
    }
    const doubles x0 = x;
    for (std::size_t k = 0; k < s.layers; ++k) {
      const double* const v = parameters.data() + first;
      const double* const w = v + s.rank * x.size();
      const double* const bias = w + s.rank * x.size();
      const doubles outer = product(w, x.size(), product(v, s.rank, x));
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += x0[i] * (outer[i] + bias[i]);
      first += (2 * s.rank + 1) * x.size();
    }
    const reference_network top{joined(x.size(), s.hidden, 2)};
    return top.forward(1, {parameters.begin() + static_cast<std::ptrdiff_t>(first), parameters.end()}, x);
  }

  /// The inner product of the outputs with `grad_y`.
  double value(std::size_t batch, const doubles& parameters, const doubles& input,
               std::span<const float> grad_y) const {
    const doubles y = forward(batch, parameters, input);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * static_cast<double>(grad_y[i]);
    return sum;
  }
};

/// Expects that `grads` are the central differences of `value` in `numbers`, at no more than about 150 indices.
template <class Value, class IsNeeded>
void expect_differences(doubles& numbers, const std::vector<float>& grads, const Value& value,
                        const IsNeeded& is_needed) {
  constexpr double h = 1e-6;
  for (std::size_t i = 0; i < numbers.size(); i += numbers.size() / 150 + 1) {
    if (!is_needed(i)) {
      ASSERT_EQ(grads[i], 0) << "unneeded number " << i;
      continue;
    }
    const double kept = numbers[i];
    numbers[i] = kept + h;
    const double above = value();
    numbers[i] = kept - h;
    const double expected = (above - value()) / (2 * h);
    numbers[i] = kept;
    ASSERT_NEAR(grads[i], expected, 1e-4 * std::max(1.0, std::abs(expected))) << "number " << i;
  }
}

TEST(Dcn, ForwardAndBackwardAreThoseOfTheFormulas) {
  source_of_numbers random(1);
  for (const dcn_shape& s : dcn_shapes()) {
    for (const std::size_t batch : {1, 2, 7}) {
      SCOPED_TRACE(text(s) + ", batch " + std::to_string(batch));
      const hybrid_model model(spec_of(s), job_of(s));
      nn::passes passes(model, {batch, s.in()}, random.numbers(batch * s.in()), batch);
      // Biases of cross layers start at zero, which would hide them.
      for (const nn::parameter& one : model.parameters())
        if (one.name.find(".b.") != std::string::npos)
          for (std::size_t i = 0; i < one.count(); ++i) passes.parameters[one.first + i] = random.number();
      const auto grad_outputs = random.numbers(batch * 2);
      const reference_dcn reference{s};
      auto p = in_double(passes.parameters);
      auto x = in_double(passes.x);
      expect_near(passes.forward(), reference.forward(batch, p, x), 1e-5);

      const auto grads = passes.backward(grad_outputs);
      const auto value = [&] { return reference.value(batch, p, x, grad_outputs); };
      expect_differences(p, grads.parameters, value, [](std::size_t) { return true; });
      const auto is_of_table = [&](std::size_t i) { return !s.has_bottom() || i % s.in() >= s.dense; };
      expect_differences(x, grads.x, value, is_of_table);
      passes.expect_at_once(grad_outputs, grads, s.tables == 0);
    }
  }
}

TEST(Dcn, ParametersAreNamedFromTheBottomToTheTop) {
  const dcn_shape s{6, 3, 4, {5}, 2, 2, {8}};
  const hybrid_model model(spec_of(s), job_of(s));
  // The cross layers' input is the bottom MLP's output and 3 rows of width 4.
  const std::vector<nn::parameter> expected{
      {"bottom.0.weight", {5, 6}, 0}, {"bottom.0.bias", {5}, 30},     {"bottom.2.weight", {4, 5}, 35},
      {"bottom.2.bias", {4}, 55},     {"top.0.v.0", {2, 16}, 59},     {"top.0.w.0", {16, 2}, 91},
      {"top.0.b.0", {16}, 123},       {"top.0.v.1", {2, 16}, 139},    {"top.0.w.1", {16, 2}, 171},
      {"top.0.b.1", {16}, 203},       {"top.1.weight", {8, 16}, 219}, {"top.1.bias", {8}, 347},
      {"top.3.weight", {2, 8}, 355},  {"top.3.bias", {2}, 371}};
  EXPECT_EQ(model.parameters(), expected);
  // Multiplications of the bottom MLP, two cross layers and the top MLP.
  EXPECT_EQ(as_network(model).multiply_adds(), 6U * 5 + 5 * 4 + 2 * 2 * 2 * 16 + 16 * 8 + 8 * 2);
}

TEST(Dcn, LayersComeAfterTheCrossLayersWithTheirOwnNumbersInMessages) {
  const dcn_shape s{6, 3, 4, {5}, 2, 2, {8}};
  auto what = job_of(s);
  what.hidden.clear();
  what.layers = {{nn::layer_norm::options{}}, {nn::linear::options{.out_features = 2}}};
  EXPECT_EQ(check_network(what, spec_of(s)), std::nullopt);
  const auto names = hybrid_model(spec_of(s), what).parameters();
  EXPECT_EQ(names.back().name, "top.2.bias");
  what.layers.back().as<nn::linear>()->out_features = 3;
  EXPECT_EQ(check_network(what, spec_of(s)),
            "--layers: the last one, layer 1 (linear), makes 3; adult needs 2; end with linear, out = 2");
  what.layers.front() = {nn::global_avg_pool2d::options{}};
  EXPECT_EQ(check_network(what, spec_of(s)),
            "--layers: layer 0 (global_avg_pool2d): takes images of channels x height x width, and its input has 16 "
            "features; leave it out");
}

TEST(Dcn, TooManyWeightsAreRefused) {
  const dcn_shape s{0, 100, 1000, {}, 65536, 1, {}};
  EXPECT_EQ(check_network(job_of(s), spec_of(s)),
            "--hidden none, --cross-rank 65536: the network would have 13107500002 weights; must be at most "
            "2147483648; use narrower layers");
}

}  // namespace
}  // namespace troupe::model::dcn_test
