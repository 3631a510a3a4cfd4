// Losses against their formulas in double; gradients against the formulas' central differences.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/device.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::kernels::test::loss_test {
namespace {

constexpr std::size_t batches[] = {1, 2, 7, 33};

using loss_formula = std::function<double(const std::vector<double>&)>;

std::vector<double> widened(const std::vector<float>& values) { return {values.begin(), values.end()}; }

/// Compares `grad` with the formula's slope at `outputs`. `scale` is the size of a gradient near 1 before the mean.
void check_gradient(const loss_formula& formula, const std::vector<float>& outputs, const std::vector<float>& grad,
                    double scale) {
  std::vector<double> at = widened(outputs);
  constexpr double step = 1e-5;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double here = at[i];
    at[i] = here + step;
    const double above = formula(at);
    at[i] = here - step;
    const double below = formula(at);
    at[i] = here;
    ASSERT_NEAR(grad[i], (above - below) / (2 * step), 16 * rounding * scale + 1e-9) << "output " << i;
  }
}

double cross_entropy_formula(std::size_t batch, std::size_t classes, const std::vector<double>& z,
                             const std::vector<std::int64_t>& target) {
  double loss = 0;
  for (std::size_t b = 0; b < batch; ++b) {
    const auto row = z.begin() + static_cast<std::ptrdiff_t>(b * classes);
    const double peak = *std::max_element(row, row + static_cast<std::ptrdiff_t>(classes));
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(z[b * classes + c] - peak);
    loss += std::log(sum) + peak - z[b * classes + static_cast<std::size_t>(target[b])];
  }
  return loss / static_cast<double>(batch);
}

TEST(SoftmaxCrossEntropy, FollowsItsFormula) {
  on_every_target([] {
    for (const std::size_t classes : odd_sizes) {
      for (const std::size_t batch : batches) {
        source_of_numbers random(static_cast<std::uint32_t>(classes * 100 + batch));
        std::vector<float> logits = random.numbers(batch * classes);
        for (float& z : logits) z *= 10;
        std::vector<std::int64_t> target;
        for (std::size_t b = 0; b < batch; ++b) target.push_back(static_cast<std::int64_t>(random.below(classes)));
        std::vector<float> grad(logits.size());
        const double loss =
            result_of(&stream::softmax_cross_entropy, batch, classes, logits.data(), target.data(), grad.data());
        const loss_formula formula = [&](const auto& z) { return cross_entropy_formula(batch, classes, z, target); };
        ASSERT_NEAR(loss, formula(widened(logits)), 1e-6) << "classes " << classes << " batch " << batch;
        if (classes <= 33) check_gradient(formula, logits, grad, 1.0 / static_cast<double>(batch));
        const double got =
            result_of(&stream::softmax_cross_entropy, batch, classes, logits.data(), target.data(), logits.data());
        ASSERT_EQ(got, loss);
        ASSERT_TRUE(same_bits(logits, grad)) << "in place";
      }
    }
  });
}

TEST(SoftmaxCrossEntropy, SurvivesLargeLogits) {
  on_every_target([] {
    const std::vector<float> logits = {3e38F, -3e38F, 0.0F, 1000.0F, 1001.0F, 1002.0F};
    const std::vector<std::int64_t> target = {0, 2};
    std::vector<float> grad(6);
    const double loss = result_of(&stream::softmax_cross_entropy, 2, 3, logits.data(), target.data(), grad.data());
    EXPECT_NEAR(loss, std::log(1 + std::exp(-1.0) + std::exp(-2.0)) / 2, 1e-7);
    EXPECT_EQ(grad[0], 0.0F);
    EXPECT_EQ(grad[1], 0.0F);
  });
}

TEST(SoftmaxCrossEntropy, TakesMinusInfinityForAnImpossibleClass) {
  const std::vector<float> logits = {0.0F, -std::numeric_limits<float>::infinity(), 0.0F};
  const std::int64_t target = 0;
  std::vector<float> grad(3);
  EXPECT_NEAR(result_of(&stream::softmax_cross_entropy, 1, 3, logits.data(), &target, grad.data()), std::log(2.0),
              1e-7);
  EXPECT_EQ(grad[1], 0.0F);
}

double bce_formula(const std::vector<double>& z, const std::vector<float>& t) {
  double loss = 0;
  for (std::size_t i = 0; i < z.size(); ++i) {
    loss += std::max(z[i], 0.0) - z[i] * static_cast<double>(t[i]) + std::log1p(std::exp(-std::abs(z[i])));
  }
  return loss / static_cast<double>(z.size());
}

double squares_formula(const std::vector<double>& y, const std::vector<float>& t) {
  double loss = 0;
  for (std::size_t i = 0; i < y.size(); ++i) loss += std::pow(y[i] - static_cast<double>(t[i]), 2);
  return loss / static_cast<double>(y.size());
}

TEST(BceWithLogits, FollowsItsFormula) {
  on_every_target([] {
    for (const std::size_t outputs : odd_sizes) {
      for (const std::size_t batch : batches) {
        const std::size_t count = batch * outputs;
        source_of_numbers random(static_cast<std::uint32_t>(outputs * 100 + batch));
        std::vector<float> logits = random.numbers(count);
        std::vector<float> target = random.numbers(count);
        for (float& z : logits) z *= 20;
        for (float& t : target) t = t < -0.5F ? 0.0F : t > 0.5F ? 1.0F : t + 0.5F;
        std::vector<float> grad(count);
        const double loss =
            result_of(&stream::bce_with_logits, batch, outputs, logits.data(), target.data(), grad.data());
        const loss_formula formula = [&](const auto& z) { return bce_formula(z, target); };
        // Each loss is computed in float32 from terms of up to 20.
        ASSERT_NEAR(loss, formula(widened(logits)), 20 * 4 * rounding) << "outputs " << outputs << " batch " << batch;
        if (count <= 300) check_gradient(formula, logits, grad, 1.0 / static_cast<double>(count));
        ASSERT_EQ(result_of(&stream::bce_with_logits, batch, outputs, logits.data(), target.data(), logits.data()),
                  loss);
        ASSERT_TRUE(same_bits(logits, grad)) << "in place";
      }
    }
  });
}

TEST(BceWithLogits, SurvivesLargeLogits) {
  on_every_target([] {
    const std::vector<float> logits = {1e30F, -1e30F, 90.0F, -90.0F};
    const std::vector<float> right = {1, 0, 1, 0};
    const std::vector<float> wrong = {0, 1, 0, 1};
    std::vector<float> grad(4);
    EXPECT_NEAR(result_of(&stream::bce_with_logits, 4, 1, logits.data(), right.data(), grad.data()), 0.0, 1e-30);
    for (const float g : grad) EXPECT_NEAR(g, 0.0F, 1e-30);
    EXPECT_NEAR(result_of(&stream::bce_with_logits, 2, 1, logits.data() + 2, wrong.data() + 2, grad.data()), 90.0,
                1e-5);
    EXPECT_EQ(grad[0], 0.5F);
    EXPECT_EQ(grad[1], -0.5F);
  });
}

TEST(BceWithLogits, KeepsThePrecisionOfSmallLosses) {
  on_every_target([] {
    const float logit = 20;
    const float target = 1;
    float grad = 0;
    const double expected = std::log1p(std::exp(-20.0));
    EXPECT_NEAR(result_of(&stream::bce_with_logits, 1, 1, &logit, &target, &grad), expected, 8 * rounding * expected);
  });
}

TEST(MeanSquaredError, FollowsItsFormula) {
  for (const std::size_t outputs : odd_sizes) {
    for (const std::size_t batch : batches) {
      const std::size_t count = batch * outputs;
      source_of_numbers random(static_cast<std::uint32_t>(outputs * 100 + batch));
      std::vector<float> y = random.numbers(count);
      const std::vector<float> target = random.numbers(count);
      std::vector<float> grad(count);
      const double loss = result_of(&stream::mean_squared_error, batch, outputs, y.data(), target.data(), grad.data());
      const loss_formula formula = [&](const auto& at) { return squares_formula(at, target); };
      ASSERT_NEAR(loss, formula(widened(y)), 1e-12);
      if (count <= 300) check_gradient(formula, y, grad, 4.0 / static_cast<double>(count));
      result_of(&stream::mean_squared_error, batch, outputs, y.data(), target.data(), y.data());
      ASSERT_TRUE(same_bits(y, grad)) << "in place";
    }
  }
}

TEST(Losses, ShowANanWhereverItIs) {
  on_every_target([] {
    constexpr std::size_t count = 37;
    for (std::size_t at = 0; at < count; ++at) {
      std::vector<float> outputs(count, 0.5F);
      outputs[at] = std::numeric_limits<float>::quiet_NaN();
      const std::vector<float> target(count, 1.0F);
      const std::int64_t target_class = 3;
      std::vector<float> grad(count);
      ASSERT_TRUE(
          std::isnan(result_of(&stream::softmax_cross_entropy, 1, count, outputs.data(), &target_class, grad.data())));
      ASSERT_TRUE(std::isnan(grad[at]));
      ASSERT_TRUE(
          std::isnan(result_of(&stream::bce_with_logits, 1, count, outputs.data(), target.data(), grad.data())));
      ASSERT_TRUE(std::isnan(grad[at]));
      ASSERT_TRUE(
          std::isnan(result_of(&stream::mean_squared_error, 1, count, outputs.data(), target.data(), grad.data())));
      ASSERT_TRUE(std::isnan(grad[at]));
    }
  });
}

/// Expects that a part's gradients are bitwise those of its samples in the whole batch, and that its loss is its share.
template <class Kernel, class Target>
void expect_parts_add_up(Kernel kernel, std::size_t width, const std::vector<float>& outputs,
                         const std::vector<Target>& targets, std::size_t targets_width) {
  const std::size_t batch = outputs.size() / width;
  std::vector<float> whole_grad(outputs.size());
  const double whole = result_of(kernel, batch, width, outputs.data(), targets.data(), whole_grad.data());
  std::vector<float> grad(outputs.size());
  double sum = 0;
  for (std::size_t first = 0; first < batch; first += 3) {
    const batch_part part(std::min<std::size_t>(3, batch - first), batch);
    sum += result_of(kernel, part, width, outputs.data() + first * width, targets.data() + first * targets_width,
                     grad.data() + first * width);
  }
  EXPECT_NEAR(sum, whole, 1e-12 * whole);
  EXPECT_TRUE(same_bits(grad, whole_grad));
}

TEST(Losses, OfPartsAddUpToTheBatchs) {
  on_every_target([] {
    const std::size_t batch = 20;
    const std::size_t width = 3;
    std::vector<float> outputs(batch * width);
    std::vector<float> targets(batch * width);
    std::vector<std::int64_t> classes(batch);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      outputs[i] = static_cast<float>((i * 37) % 19) / 4 - 2;
      targets[i] = static_cast<float>(i % 2);
      classes[i / width] = static_cast<std::int64_t>(i % width);
    }
    expect_parts_add_up(&stream::softmax_cross_entropy, width, outputs, classes, 1);
    expect_parts_add_up(&stream::bce_with_logits, width, outputs, targets, width);
    expect_parts_add_up(&stream::mean_squared_error, width, outputs, targets, width);
  });
}

TEST(Losses, DoNotDependOnAChunkBoundary) {
  // The mean over copies of one sample is that sample's loss.
  for (const std::size_t batch : {1, 255, 256, 257, 1000}) {
    const std::vector<float> z(batch, 0.75F);
    const std::vector<float> t(batch, 1.0F);
    std::vector<float> grad(batch);
    EXPECT_NEAR(result_of(&stream::bce_with_logits, batch, 1, z.data(), t.data(), grad.data()),
                std::log1p(std::exp(-0.75)), 1e-7);
  }
}

}  // namespace
}  // namespace troupe::kernels::test::loss_test
