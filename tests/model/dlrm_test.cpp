// The hybrid model with interaction `dot` against DLRM in double: values and gradients.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "model/hybrid.hpp"
#include "tests/kernels/support.hpp"
#include "tests/model/reference_network.hpp"
#include "tests/nn/passes.hpp"

namespace troupe::model::dlrm_test {
namespace {

using kernels::test::same_bits;
using kernels::test::source_of_numbers;

struct shape {
  std::size_t dense;
  std::size_t tables;
  std::size_t dim;
  std::vector<std::size_t> bottom_hidden;
  std::vector<std::size_t> hidden;
};

std::vector<shape> shapes() {
  return {{6, 8, 8, {64}, {64, 32}}, {3, 1, 1, {}, {}},         {1, 2, 3, {5}, {4}},
          {0, 2, 7, {}, {6}},        {0, 3, 16, {}, {}},        {13, 26, 16, {32, 16}, {33}},
          {2, 8, 64, {1}, {5, 5}},   {40, 3, 5, {9, 8, 7}, {2}}};
}

job job_of(const shape& s) {
  job what;
  what.interaction = interaction_kind::dot;
  if (s.dense > 0) what.bottom_hidden = s.bottom_hidden;
  what.hidden = s.hidden;
  what.loss = loss_kind::mse;
  return what;
}

data_spec spec_of(const shape& s) {
  data_spec spec;
  spec.tables.assign(s.tables, {10, s.dim});
  spec.dense_features = s.dense;
  spec.outputs = 2;
  return spec;
}

std::string text(const shape& s) {
  return testing::PrintToString(std::vector<std::size_t>{s.dense, s.tables, s.dim}) +
         testing::PrintToString(s.bottom_hidden) + testing::PrintToString(s.hidden);
}

/// DLRM as in the paper, in double, with parameters and input laid out as in `hybrid_model`.
struct reference_dlrm {
  shape s;

  std::vector<double> forward(std::size_t batch, const std::vector<double>& parameters,
                              const std::vector<double>& input) const {
    const std::size_t in = s.dense + s.tables * s.dim;
    reference_network bottom{{s.dense}};
    bottom.widths.insert(bottom.widths.end(), s.bottom_hidden.begin(), s.bottom_hidden.end());
    bottom.widths.push_back(s.dim);
    std::vector<std::vector<std::vector<double>>> vectors(batch);
    std::size_t bottom_count = 0;
    if (s.dense > 0) {
      std::vector<double> dense;
      for (std::size_t b = 0; b < batch; ++b)
        dense.insert(dense.end(), input.begin() + static_cast<std::ptrdiff_t>(b * in),
                     input.begin() + static_cast<std::ptrdiff_t>(b * in + s.dense));
      auto out = bottom.forward(batch, parameters, dense);
      for (double& x : out) x = std::max(x, 0.0);
      for (std::size_t b = 0; b < batch; ++b)
        vectors[b].emplace_back(out.begin() + static_cast<std::ptrdiff_t>(b * s.dim),
                                out.begin() + static_cast<std::ptrdiff_t>((b + 1) * s.dim));
      for (std::size_t l = 0; l + 1 < bottom.widths.size(); ++l)
        bottom_count += (bottom.widths[l] + 1) * bottom.widths[l + 1];
    }
    std::vector<double> joined;
    for (std::size_t b = 0; b < batch; ++b) {
      for (std::size_t t = 0; t < s.tables; ++t) {
        const auto begin = input.begin() + static_cast<std::ptrdiff_t>(b * in + s.dense + t * s.dim);
        vectors[b].emplace_back(begin, begin + static_cast<std::ptrdiff_t>(s.dim));
      }
      if (s.dense > 0) joined.insert(joined.end(), vectors[b].front().begin(), vectors[b].front().end());
      for (std::size_t i = 0; i < vectors[b].size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          double dot = 0;
          for (std::size_t d = 0; d < s.dim; ++d) dot += vectors[b][i][d] * vectors[b][j][d];
          joined.push_back(dot);
        }
      }
    }
    reference_network top{{joined.size() / batch}};
    top.widths.insert(top.widths.end(), s.hidden.begin(), s.hidden.end());
    top.widths.push_back(2);
    return top.forward(batch, {parameters.begin() + static_cast<std::ptrdiff_t>(bottom_count), parameters.end()},
                       joined);
  }

  double value(std::size_t batch, const std::vector<double>& parameters, const std::vector<double>& input,
               std::span<const float> grad_y) const {
    const auto y = forward(batch, parameters, input);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * static_cast<double>(grad_y[i]);
    return sum;
  }
};

TEST(Dlrm, ForwardAndBackwardAreThoseOfThePaper) {
  source_of_numbers random(1);
  for (const shape& s : shapes()) {
    for (const std::size_t batch : {1, 2, 7}) {
      SCOPED_TRACE(text(s) + ", batch " + std::to_string(batch));
      const hybrid_model model(spec_of(s), job_of(s));
      const std::size_t width = model.in_features();
      nn::passes passes(model, {batch, width}, random.numbers(batch * width), batch);
      const auto grad_outputs = random.numbers(batch * 2);
      const reference_dlrm reference{s};
      auto p = in_double(passes.parameters);
      auto x = in_double(passes.x);
      expect_near(passes.forward(), reference.forward(batch, p, x), 1e-5);

      const auto grads = passes.backward(grad_outputs);
      const auto derivative = [&](double& number) {
        constexpr double h = 1e-6;
        const double kept = number;
        number = kept + h;
        const double above = reference.value(batch, p, x, grad_outputs);
        number = kept - h;
        const double below = reference.value(batch, p, x, grad_outputs);
        number = kept;
        return (above - below) / (2 * h);
      };
      for (std::size_t i = 0; i < p.size(); i += p.size() / 100 + 1)
        ASSERT_NEAR(grads.parameters[i], derivative(p[i]), 1e-4) << "parameter " << i;
      for (std::size_t i = 0; i < x.size(); i += x.size() / 100 + 1) {
        if (i % width < s.dense)
          ASSERT_EQ(grads.x[i], 0) << "unneeded: of the dense features";
        else
          ASSERT_NEAR(grads.x[i], derivative(x[i]), 1e-4) << "input " << i;
      }
    }
  }
}

TEST(Dlrm, LayersFinishFromTheTopToTheBottom) {
  const shape s{6, 2, 4, {5, 3}, {8, 7}};
  const hybrid_model model(spec_of(s), job_of(s));
  const std::size_t width = model.in_features();
  nn::passes passes(model, {3, width}, source_of_numbers(2).numbers(3 * width));
  const auto grad_outputs = source_of_numbers(3).numbers(3 * 2);
  passes.forward();
  const auto grads = passes.backward(grad_outputs);
  nn::noted_places to(passes.parameters.size());
  passes.backward_parameters(grad_outputs, to);
  EXPECT_EQ(to.done, nn::noted_places::from_the_last(model.ranges()));
  EXPECT_EQ(to.done.size(), 6U) << "one for each linear layer";
  EXPECT_TRUE(same_bits(to.numbers.get(), grads.parameters));
}

TEST(Dlrm, ParametersAreNamedFromTheBottomToTheTop) {
  const shape s{6, 3, 4, {5}, {8}};
  const hybrid_model model(spec_of(s), job_of(s));
  // The top MLP's input is the bottom MLP's output and the dots of 4 vectors.
  const std::vector<nn::parameter> expected{{"bottom.0.weight", {5, 6}, 0},  {"bottom.0.bias", {5}, 30},
                                            {"bottom.2.weight", {4, 5}, 35}, {"bottom.2.bias", {4}, 55},
                                            {"top.0.weight", {8, 10}, 59},   {"top.0.bias", {8}, 139},
                                            {"top.2.weight", {2, 8}, 147},   {"top.2.bias", {2}, 163}};
  EXPECT_EQ(model.parameters(), expected);
  // Without dense features the input is only the dots of 3 vectors.
  const shape sparse{0, 3, 4, {}, {}};
  EXPECT_EQ(hybrid_model(spec_of(sparse), job_of(sparse)).parameters(),
            (std::vector<nn::parameter>{{"top.0.weight", {2, 3}, 0}, {"top.0.bias", {2}, 6}}));
}

TEST(Dlrm, BottomAndTopStartWithDifferentWeights) {
  // Both MLPs have a first layer of 4 x 4.
  const shape s{4, 1, 3, {4}, {4}};
  const hybrid_model model(spec_of(s), job_of(s));
  ASSERT_EQ(model.parameters()[0].shape, model.parameters()[4].shape);
  const auto parameters = nn::initial_numbers(model, 7).parameters;
  for (std::size_t i = 0; i < 16; ++i) EXPECT_NE(parameters[i], parameters[model.parameters()[4].first + i]) << i;
  EXPECT_TRUE(same_bits(parameters, nn::initial_numbers(model, 7).parameters));
}

TEST(Dlrm, BottomHiddenHasADefault) {
  shape s{6, 8, 8, {64}, {9}};
  auto what = job_of(s);
  const hybrid_model given(spec_of(s), what);
  what.bottom_hidden.reset();
  EXPECT_EQ(hybrid_model(spec_of(s), what).parameters(), given.parameters());
}

TEST(Dlrm, VectorsThatCannotMeetAreRefused) {
  const auto fault_of = [](data_spec spec, const job& what) { return check_network(what, spec).value_or("none"); };
  const shape s{6, 3, 4, {5}, {8}};
  EXPECT_EQ(fault_of(spec_of(s), job_of(s)), "none");
  EXPECT_EQ(fault_of(spec_of({1, 1, 4, {}, {}}), job_of({1, 1, 4, {}, {}})), "none");
  EXPECT_EQ(fault_of(spec_of({0, 1, 4, {}, {}}), job_of({0, 1, 4, {}, {}})),
            "--interaction dot: needs two vectors or more, from tables and dense features; there are 1 table(s) and 0 "
            "dense features; use cat");
  EXPECT_NE(fault_of(spec_of({6, 0, 4, {}, {}}), job_of({6, 0, 4, {}, {}})).find("there are 0 table(s)"),
            std::string::npos);
  auto uneven = spec_of(s);
  uneven.tables[2].dim = 5;
  EXPECT_EQ(fault_of(uneven, job_of(s)),
            "--interaction dot: needs tables of one width; table 1 has 4, table 2 has 5; use cat");
  auto without_dense = spec_of(s);
  without_dense.dense_features = 0;
  EXPECT_EQ(fault_of(without_dense, job_of(s)),
            "--bottom-hidden 5: adult has no dense features for a bottom MLP; leave it out");
}

}  // namespace
}  // namespace troupe::model::dlrm_test
