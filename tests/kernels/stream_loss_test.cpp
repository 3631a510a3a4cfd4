// A stream's losses and their gradients against the formulas in double.

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_loss_test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

template <class Place>
class StreamLoss : public stream_test<Place> {
 protected:
  struct outcome {
    double loss;
    std::vector<float> grad;
  };

  outcome softmax(std::size_t batch, std::size_t classes, const std::vector<float>& logits,
                  const std::vector<std::int64_t>& target) {
    const auto to = this->put(target);
    return by([&](const float* z, float* grad,
                  double* loss) { this->on().softmax_cross_entropy(batch, classes, z, to.data(), grad, loss); },
              logits);
  }

  outcome bce(const std::vector<float>& logits, const std::vector<float>& target) {
    const auto to = this->put(target);
    return by([&](const float* z, float* grad,
                  double* loss) { this->on().bce_with_logits(logits.size(), 1, z, to.data(), grad, loss); },
              logits);
  }

  outcome squares(const std::vector<float>& y, const std::vector<float>& target) {
    const auto to = this->put(target);
    return by([&](const float* z, float* grad,
                  double* loss) { this->on().mean_squared_error(1, y.size(), z, to.data(), grad, loss); },
              y);
  }

 private:
  /// Computes the loss and its gradient; also checks a gradient that overwrites the outputs.
  template <class Loss>
  outcome by(const Loss& loss_of, const std::vector<float>& outputs) {
    const auto z = this->put(outputs);
    const auto grad = this->template buffer<float>(outputs.size());
    const auto loss = this->template buffer<double>(2);
    loss_of(z.data(), grad.data(), loss.data());
    loss_of(z.data(), z.data(), loss.data() + 1);
    const std::vector<double> losses = this->get(loss);
    EXPECT_TRUE(losses[0] == losses[1] || std::isnan(losses[0]));
    outcome got{losses[0], this->get(grad)};
    EXPECT_TRUE(same_bits(got.grad, this->get(z))) << "in place";
    return got;
  }
};
TYPED_TEST_SUITE(StreamLoss, each_device, device_names);

TYPED_TEST(StreamLoss, CrossEntropyFollowsItsFormula) {
  for (const std::size_t classes : {1, 2, 10, 31, 32, 33, 100, 257}) {
    for (const std::size_t batch : {1, 2, 7, 33, 300}) {
      source_of_numbers random(static_cast<std::uint32_t>(classes * 1000 + batch));
      std::vector<float> logits = random.numbers(batch * classes);
      for (float& z : logits) z *= 10;
      std::vector<std::int64_t> target;
      for (std::size_t b = 0; b < batch; ++b) target.push_back(static_cast<std::int64_t>(random.below(classes)));
      const auto got = this->softmax(batch, classes, logits, target);
      double loss = 0;
      for (std::size_t b = 0; b < batch; ++b) {
        const float* const z = logits.data() + b * classes;
        const auto peak = static_cast<double>(*std::max_element(z, z + classes));
        double sum = 0;
        for (std::size_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(z[c]) - peak);
        loss += std::log(sum) + peak - static_cast<double>(z[target[b]]);
        for (std::size_t c = 0; c < classes; ++c) {
          const double share = std::exp(static_cast<double>(z[c]) - peak) / sum;
          const double expected = share - (static_cast<std::int64_t>(c) == target[b] ? 1.0 : 0.0);
          ASSERT_NEAR(got.grad[b * classes + c], expected / static_cast<double>(batch),
                      (32 * rounding * share + 4 * rounding) / static_cast<double>(batch));
        }
      }
      ASSERT_NEAR(got.loss, loss / static_cast<double>(batch), 1e-6);
    }
  }
}

TYPED_TEST(StreamLoss, CrossEntropySurvivesLargeLogits) {
  const auto got = this->softmax(2, 3, {3e38F, -3e38F, 0.0F, 1000.0F, 1001.0F, 1002.0F}, {0, 2});
  EXPECT_NEAR(got.loss, std::log(1 + std::exp(-1.0) + std::exp(-2.0)) / 2, 1e-7);
  EXPECT_EQ(got.grad[0], 0.0F);
  EXPECT_EQ(got.grad[1], 0.0F);
  EXPECT_NEAR(this->softmax(1, 3, {0.0F, -inf, 0.0F}, {0}).loss, std::log(2.0), 1e-7);
}

TYPED_TEST(StreamLoss, BinaryCrossEntropyFollowsItsFormula) {
  for (const std::size_t count : {1, 5, 33, 256, 257, 5000, 70000}) {
    source_of_numbers random(static_cast<std::uint32_t>(count));
    std::vector<float> logits = random.numbers(count);
    std::vector<float> target = random.numbers(count);
    for (float& z : logits) z *= 20;
    for (float& t : target) t = t < -0.5F ? 0.0F : t > 0.5F ? 1.0F : t + 0.5F;
    const auto got = this->bce(logits, target);
    const auto n = static_cast<double>(count);
    double loss = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto z = static_cast<double>(logits[i]);
      const auto t = static_cast<double>(target[i]);
      loss += std::max(z, 0.0) - z * t + std::log1p(std::exp(-std::abs(z)));
      ASSERT_NEAR(got.grad[i], (1 / (1 + std::exp(-z)) - t) / n, 8 * rounding / n);
    }
    ASSERT_NEAR(got.loss, loss / n, 20 * 4 * rounding) << count;
  }
}

TYPED_TEST(StreamLoss, BinaryCrossEntropySurvivesLargeLogits) {
  const auto right = this->bce({1e30F, -1e30F, 90.0F, -90.0F}, {1, 0, 1, 0});
  EXPECT_NEAR(right.loss, 0.0, 1e-30);
  for (const float g : right.grad) EXPECT_NEAR(g, 0.0F, 1e-30);
  const auto wrong = this->bce({90.0F, -90.0F}, {0, 1});
  EXPECT_NEAR(wrong.loss, 90.0, 1e-5);
  EXPECT_EQ(wrong.grad, (std::vector<float>{0.5F, -0.5F}));
  const double small = std::log1p(std::exp(-20.0));
  EXPECT_NEAR(this->bce({20.0F}, {1.0F}).loss, small, 8 * rounding * small);
}

TYPED_TEST(StreamLoss, MeanSquaredErrorFollowsItsFormula) {
  for (const std::size_t count : {1, 33, 257, 5000}) {
    source_of_numbers random(static_cast<std::uint32_t>(count));
    const std::vector<float> y = random.numbers(count);
    const std::vector<float> target = random.numbers(count);
    const auto got = this->squares(y, target);
    const auto n = static_cast<double>(count);
    double loss = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double difference = static_cast<double>(y[i]) - static_cast<double>(target[i]);
      loss += difference * difference / n;
      ASSERT_NEAR(got.grad[i], 2 * difference / n, 8 * rounding / n);
    }
    ASSERT_NEAR(got.loss, loss, 1e-12);
  }
}

TYPED_TEST(StreamLoss, ShowsANanWhereverItIs) {
  constexpr std::size_t count = 37;
  for (std::size_t at = 0; at < count; ++at) {
    std::vector<float> outputs(count, 0.5F);
    outputs[at] = nan;
    const std::vector<float> ones(count, 1.0F);
    for (const auto& got :
         {this->softmax(1, count, outputs, {3}), this->bce(outputs, ones), this->squares(outputs, ones)}) {
      ASSERT_TRUE(std::isnan(got.loss));
      ASSERT_TRUE(std::isnan(got.grad[at]));
    }
  }
}

}  // namespace
}  // namespace troupe::kernels::test::stream_loss_test
