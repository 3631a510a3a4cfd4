// The checker of users' modules: it accepts correct modules and names the fault of others.

#include "troupe/check_gradient.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/library/error_of.hpp"
#include "tests/library/own_modules.hpp"
#include "troupe/composition.hpp"
#include "troupe/error.hpp"
#include "troupe/layers.hpp"

namespace troupe::check_gradient_test {
namespace {

using test::scale;

/// Numbers between -1.2 and 1.2, none within 0.2 of 0.
tensor some_input(const shape& lengths) {
  tensor x(lengths);
  int i = 0;
  for (float& one : x.as<float>()) {
    const int step = i++ * 7 % 11;
    one = static_cast<float>(step % 2 == 0 ? 1 : -1) * (0.2F + 0.1F * static_cast<float>(step));
  }
  return x;
}

std::string wrong_with(const nn::module& of, const tensor& input = some_input({2, 3})) {
  return test::error_of([&] { nn::check_gradient(of, input); });
}

TEST(CheckGradient, AcceptsRightModules) {
  EXPECT_EQ(wrong_with(nn::linear(3, 5)), "no error");
  EXPECT_EQ(wrong_with(nn::linear(3, 5, false)), "no error");
  EXPECT_EQ(wrong_with(nn::relu()), "no error");
  EXPECT_EQ(wrong_with(nn::relu(), some_input({2, 3, 4})), "no error");
  EXPECT_EQ(wrong_with(scale(3)), "no error");
  EXPECT_EQ(wrong_with(test::dropout()), "no error");
  EXPECT_EQ(wrong_with(test::running_mean(3)), "no error");
  EXPECT_EQ(wrong_with(nn::sequential(nn::linear(3, 4))), "no error");
  EXPECT_EQ(wrong_with(nn::sequential(nn::linear(3, 8), test::dropout(), nn::linear(8, 2))), "no error");
  EXPECT_EQ(wrong_with(nn::sequential(scale(3), nn::sequential(nn::linear(3, 4), test::running_mean(4)), scale(4))),
            "no error");
  EXPECT_EQ(wrong_with(nn::residual(nn::linear(3, 3))), "no error");
  EXPECT_EQ(wrong_with(nn::residual(nn::residual(nn::sequential(nn::linear(3, 6), scale(6), nn::linear(6, 3))))),
            "no error");
}

TEST(CheckGradient, AcceptsANetworkWithKinks) {
  nn::sequential network(nn::linear(3, 16), nn::relu());
  for (int i = 0; i < 2; ++i) network.add(nn::residual(nn::sequential(nn::linear(16, 16), nn::relu())));
  network.add(nn::linear(16, 2));
  EXPECT_EQ(wrong_with(network), "no error");
}

/// `scale` with one fault.
class wrong_scale final : public nn::module {
 public:
  enum class fault { input, parameter, outside, unwritten, order, random, changes };

  explicit wrong_scale(fault what) : fault_(what) {}

  std::string type() const override { return "wrong_scale"; }
  std::vector<nn::parameter> parameters() const override { return right_.parameters(); }
  void initialize(std::uint64_t key, const nn::tensor_list<float>& parameters,
                  const nn::tensor_list<float>& buffers) const override {
    right_.initialize(key, parameters, buffers);
  }
  troupe::shape output(const tensor_view& input) const override { return right_.output(input); }
  void forward(const nn::pass& how, const nn::pass_numbers& numbers) const override {
    right_.forward(how, numbers);
    if (fault_ == fault::random) numbers.output[1] += static_cast<float>(++calls_);
  }
  void backward(const nn::pass& how, const nn::pass_numbers& numbers, const nn::gradients& of) const override {
    right_.backward(how, numbers, of);
    if (fault_ == fault::input && of.input) of.input[4] *= 1.05F;
    if (fault_ == fault::changes) numbers.output[6] = 1;
    if (!of.parameters) return;
    if (fault_ == fault::parameter) of.parameters[0][2] = -of.parameters[0][2];
    if (fault_ == fault::outside) of.parameters[0][3] = 0;
    if (fault_ == fault::unwritten) of.parameters[0][1] = unwritten_;
    if (fault_ == fault::order && !of.input) of.parameters[0][0] = 0;
  }

 private:
  scale right_{3};
  fault fault_;
  mutable int calls_ = 0;
  float unwritten_ = std::bit_cast<float>(0x7fa5a5a5U);
};

TEST(CheckGradient, NamesWhatIsWrong) {
  using enum wrong_scale::fault;
  const auto description_of = [](wrong_scale::fault one) { return wrong_with(wrong_scale(one)); };
  const auto expect_begin = [](const std::string& text, const std::string& begin) {
    EXPECT_EQ(text.substr(0, begin.size()), begin);
  };
  expect_begin(description_of(input), "wrong_scale: backward gives the gradient of the input[1, 1] as ");
  expect_begin(description_of(parameter), "wrong_scale: backward gives the gradient of weight[2] as ");
  EXPECT_EQ(description_of(outside), "wrong_scale: backward writes outside of the parameters' gradient");
  EXPECT_EQ(description_of(unwritten), "wrong_scale: backward does not write the gradient of weight[1]");
  expect_begin(description_of(order), "wrong_scale: backward gives the gradient of weight[0] as ");
  EXPECT_NE(description_of(order).find("and as 0 when asked one after the other"), std::string::npos)
      << description_of(order);
  expect_begin(description_of(random), "wrong_scale: forward gives the output[0, 1] = ");
  EXPECT_EQ(description_of(changes), "wrong_scale: backward writes outside of the output");
}

TEST(CheckGradient, ShowsBothValues) {
  // y = w x with w = 1: the gradient of x equals that of y; the fault gives 5 % more.
  const std::string text = wrong_with(wrong_scale(wrong_scale::fault::input));
  double given = 0;
  double expected = 0;
  ASSERT_EQ(std::sscanf(text.c_str(),
                        "wrong_scale: backward gives the gradient of the input[1, 1] as %lf, forward's "
                        "differences give %lf",
                        &given, &expected),
            2)
      << text;
  EXPECT_NEAR(given, 1.05 * expected, 1e-3 * std::abs(expected));
}

TEST(CheckGradient, FindsAWrongModuleWithinOthers) {
  const std::string text = wrong_with(nn::sequential(nn::linear(3, 3), wrong_scale(wrong_scale::fault::parameter)));
  EXPECT_NE(text.find("sequential: backward gives the gradient of 1.weight[2] as "), std::string::npos) << text;
}

TEST(CheckGradient, RefusesAnInputThatTheModuleRefuses) {
  EXPECT_EQ(wrong_with(nn::linear(4, 2)), "linear: takes [n, 4] of float32 with n at least 1, not [2, 3] of float32");
  EXPECT_EQ(wrong_with(nn::sequential()), "sequential: has no modules; add at least 1");
  EXPECT_EQ(wrong_with(nn::residual(nn::linear(3, 4))),
            "residual: linear makes [2, 4] of [2, 3] of float32; its output must have the input's shape, of float32");
  EXPECT_EQ(wrong_with(nn::sequential(nn::linear(3, 4), nn::linear(5, 2))),
            "linear: takes [n, 5] of float32 with n at least 1, not [2, 4] of float32");
}

}  // namespace
}  // namespace troupe::check_gradient_test
