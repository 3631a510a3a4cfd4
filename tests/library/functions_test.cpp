// Functions and losses: values and gradients compared with formulas in double.

#include "troupe/functions.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/own_modules.hpp"
#include "troupe/troupe.hpp"

namespace troupe::functions_test {
namespace {

using reals = std::vector<double>;

/// A loss of the numbers x [1, n], and the same formula in double.
struct function {
  std::function<tensor(context&, const tensor&)> loss;
  std::function<double(const reals&)> formula;
};

struct outcome {
  double loss = 0;
  std::vector<float> weights = {};
};

/// Multiplies x by weights of 1. After a step with learning rate 1 they are 1 - x times the loss's gradient with
/// respect to w x.
task<> go_back(trainer me, std::vector<float> x, const function* what, outcome* result) {
  auto model = me.data_parallel(test::scale(x.size()));
  distributed_optimizer optimizer(sgd{.lr = 1}, model);
  auto context = me.new_context();
  const tensor loss = what->loss(context, model(context, tensor::of<float>({1, x.size()}, x)));
  result->loss = loss.item();
  co_await context.backward(loss);
  co_await optimizer.step(context);
  result->weights = model.parameters();
}

std::string error_of(const function& what) {
  test::made_cluster cluster;
  outcome result;
  return test::error_of([&] {
    cluster.run(1, go_back, std::vector<float>{0.5F, -0.25F, 1.5F, 0.75F, -1.25F, 2.0F}, &what, &result);
  });
}

void check(const function& what) {
  const std::vector<float> x = {0.5F, -0.25F, 1.5F, 0.75F, -1.25F, 2.0F};
  test::made_cluster cluster;
  outcome result;
  cluster.run(1, go_back, x, &what, &result);
  const reals at(x.begin(), x.end());
  EXPECT_NEAR(result.loss, what.formula(at), 1e-6);
  for (std::size_t i = 0; i < x.size(); ++i) {
    reals above = at;
    reals below = at;
    above[i] += 1e-5;
    below[i] -= 1e-5;
    const double slope = (what.formula(above) - what.formula(below)) / 2e-5;
    EXPECT_NEAR(result.weights[i], 1 - at[i] * slope, 2e-6) << i;
  }
}

tensor constant(const shape& lengths, const std::vector<float>& numbers) {
  return tensor::of<float>(lengths, std::span(numbers));
}

const std::vector<float> six = {0.3F, 1, 0, 0.6F, 0.9F, 0.1F};

TEST(Losses, MeanSquaredError) {
  check({[](context& in, const tensor& x) {
           return nn::mse_loss(in, x, constant({1, 6}, six));
         },
         [](const reals& x) {
           double sum = 0;
           for (std::size_t i = 0; i < 6; ++i) sum += std::pow(x[i] - static_cast<double>(six[i]), 2);
           return sum / 6;
         }});
}

TEST(Losses, BinaryCrossEntropyOfLogits) {
  check({[](context& in, const tensor& x) {
           return nn::bce_with_logits(in, x, constant({1, 6}, six));
         },
         [](const reals& x) {
           double sum = 0;
           for (std::size_t i = 0; i < 6; ++i) {
             const double p = 1 / (1 + std::exp(-x[i]));
             const auto t = static_cast<double>(six[i]);
             sum -= t * std::log(p) + (1 - t) * std::log(1 - p);
           }
           return sum / 6;
         }});
}

TEST(Losses, RefuseWrongTargets) {
  EXPECT_EQ(error_of({[](context& in, const tensor& x) { return nn::mse_loss(in, x, constant({6}, six)); }, {}}),
            "trainer 0, step 1: mse_loss: outputs [1, 6] of float32 and targets [6] of float32; it takes two of one "
            "shape, of float32, at least 1 number each");
  EXPECT_EQ(error_of({[](context& in, const tensor& x) {
                        return nn::bce_with_logits(in, x, constant({1, 6}, {0, 0, 1, 1.5F, 0, 0}));
                      },
                      {}}),
            "trainer 0, step 1: bce_with_logits: target 3 is 1.5: must be between 0 and 1");
}

TEST(Functions, SumOfProducts) {
  check({[](context& in, const tensor& x) {
           return sum(in, multiply(in, multiply(in, x, x), constant({1, 6}, six)));
         },
         [](const reals& x) {
           double all = 0;
           for (std::size_t i = 0; i < 6; ++i) all += x[i] * x[i] * static_cast<double>(six[i]);
           return all;
         }});
}

TEST(Functions, LossesAddedAndScaled) {
  check({[](context& in, const tensor& x) {
           const tensor squares = nn::mse_loss(in, x, constant({1, 6}, six));
           return add(in, scale(in, squares, 3), multiply(in, mean(in, x), squares));
         },
         [](const reals& x) {
           double squares = 0;
           double average = 0;
           for (std::size_t i = 0; i < 6; ++i) {
             squares += std::pow(x[i] - static_cast<double>(six[i]), 2) / 6;
             average += x[i] / 6;
           }
           return 3 * squares + average * squares;
         }});
}

TEST(Functions, ConcatAlongTheLastDimension) {
  // [3, 2] concatenated with data [3, 1] and with itself scaled: columns a b c 2a 2b.
  check({[](context& in, const tensor& x) {
           const tensor rows = reshape(in, x, {3, 2});
           const tensor whole = concat(in, rows, constant({3, 1}, {1, 2, 3}), scale(in, rows, 2));
           std::vector<float> factors(15);
           for (std::size_t i = 0; i < 15; ++i) factors[i] = static_cast<float>(i + 1);
           return sum(in, multiply(in, whole, constant({3, 5}, factors)));
         },
         [](const reals& x) {
           double all = 0;
           for (std::size_t row = 0; row < 3; ++row) {
             const double columns[] = {x[2 * row], x[2 * row + 1], static_cast<double>(row + 1), 2 * x[2 * row],
                                       2 * x[2 * row + 1]};
             for (std::size_t k = 0; k < 5; ++k) all += columns[k] * static_cast<double>(5 * row + k + 1);
           }
           return all;
         }});
}

TEST(Functions, DotProductsOfPairs) {
  // Rows of two numbers: the data (1, 2), x halved, and x.
  check({[](context& in, const tensor& x) {
           const tensor rows = reshape(in, x, {3, 2});
           const tensor data = constant({3, 2}, {1, 2, 1, 2, 1, 2});
           const tensor dots = pairwise_dots(in, data, scale(in, rows, 0.5), rows);
           return sum(in, multiply(in, dots, constant({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})));
         },
         [](const reals& x) {
           double all = 0;
           for (std::size_t row = 0; row < 3; ++row) {
             const double a = x[2 * row];
             const double b = x[2 * row + 1];
             const double with_data = a + 2 * b;
             const auto first = static_cast<double>(3 * row + 1);
             all += first * with_data / 2 + (first + 1) * with_data + (first + 2) * (a * a + b * b) / 2;
           }
           return all;
         }});
}

TEST(Functions, RefuseShapesThatDoNotFit) {
  const auto text = [](std::function<tensor(context&, const tensor&)> what) {
    return error_of({std::move(what), {}}).substr(std::string("trainer 0, step 1: ").size());
  };
  EXPECT_EQ(text([](context& in, const tensor& x) { return add(in, x, constant({6}, six)); }),
            "add: tensors [1, 6] of float32 and [6] of float32; it takes two of one shape and type");
  EXPECT_EQ(text([](context& in, const tensor& x) { return multiply(in, x, sum(in, x)); }),
            "multiply: tensors [1, 6] of float32 and [1] of float64; it takes two of one shape and type");
  EXPECT_EQ(text([](context& in, const tensor& x) { return reshape(in, x, {4}); }),
            "reshape: [1, 6] has 6 numbers, [4] would have 4");
  EXPECT_EQ(
      text([](context& in, const tensor& x) { return concat(in, x, constant({6}, six)); }),
      "concat: tensors [1, 6] of float32 and [6] of float32; it takes float32 alike in all dimensions but the last");
  EXPECT_EQ(text([](context& in, const tensor& x) {
              return pairwise_dots(in, x, constant({2, 3}, six));
            }),
            "pairwise_dots: tensors [1, 6] and [2, 3] of float32; it takes matrices [n, d] of one shape, of float32");
  const std::vector<std::int64_t> whole = {1};
  EXPECT_EQ(text([&](context& in, const tensor&) { return sum(in, tensor::of<std::int64_t>({1}, whole)); }),
            "sum: a tensor [1] of int64; it takes float32 or float64, at least 1 number");
}

TEST(Tensors, HaveTheShapeInBraces) {
  const std::size_t rows = 3;
  const tensor four({4});
  EXPECT_EQ(four.shape(), shape(4));
  EXPECT_EQ(four.type(), dtype::f32);
  EXPECT_EQ(tensor({rows}, dtype::i64).shape(), shape(3));
  EXPECT_EQ(tensor({rows, 2}).shape(), shape(3, 2));
  const tensor copy(four);
  EXPECT_EQ(copy.as<float>().data(), four.as<float>().data());
  static_assert(!std::is_constructible_v<tensor, int>, "a number is no shape");
}

}  // namespace
}  // namespace troupe::functions_test
