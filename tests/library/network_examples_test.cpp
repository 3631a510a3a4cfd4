// The examples that train only a network, compared with the same training in double.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "model/random.hpp"
#include "tests/library/example_output.hpp"
#include "troupe/composition.hpp"
#include "troupe/layers.hpp"

namespace troupe::network_examples_test {
namespace {

using test::output_of;
using reals = std::vector<double>;

struct sample {
  reals x;
  double y = 0;
};

/// linear(in, hidden), ReLU or swish, linear(hidden, 1): mean squared errors of whole batches, and SGD steps with
/// momentum 0.9.
class network {
 public:
  network(std::size_t in, std::size_t hidden, bool has_swish) : in_(in), hidden_(hidden), has_swish_(has_swish) {
    // The trainers initialize their first replica like this: one key after the other.
    const std::uint64_t key = model::random_key(1, model::random_stream::dense_weights, 0, 0);
    append(nn::linear(in, hidden), model::random_bits(key, 0));
    betas_ = weights_.size();
    if (has_swish) weights_.resize(weights_.size() + hidden, 1.0);
    second_ = weights_.size();
    append(nn::linear(hidden, 1), model::random_bits(key, 2));
    momentum_.resize(weights_.size());
  }

  /// Returns the mean loss; adds its gradient times `scale` to `gradient`, if given.
  double loss(const std::vector<sample>& batch, reals* gradient = nullptr, double scale = 1) const {
    double sum = 0;
    const auto n = static_cast<double>(batch.size());
    for (const sample& one : batch) {
      reals before(hidden_);
      reals after(hidden_);
      double y = weights_[second_ + hidden_];
      for (std::size_t k = 0; k < hidden_; ++k) {
        before[k] = weights_[in_ * hidden_ + k];
        for (std::size_t j = 0; j < in_; ++j) before[k] += weights_[in_ * k + j] * one.x[j];
        after[k] = has_swish_ ? before[k] * gate(k, before[k]) : std::max(before[k], 0.0);
        y += weights_[second_ + k] * after[k];
      }
      sum += (y - one.y) * (y - one.y) / n;
      if (gradient != nullptr) go_back(one, before, after, scale * 2 * (y - one.y) / n, *gradient);
    }
    return sum;
  }

  void step(const reals& gradient) {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      momentum_[i] = steps_ == 0 ? gradient[i] : 0.9 * momentum_[i] + gradient[i];
      weights_[i] -= 0.1 * momentum_[i];
    }
    ++steps_;
  }

  reals no_gradient() const { return reals(weights_.size()); }

 private:
  void append(const nn::linear& layer, std::uint64_t key) {
    const std::vector<float> initial = nn::initial_numbers(layer, key).parameters;
    weights_.insert(weights_.end(), initial.begin(), initial.end());
  }

  double gate(std::size_t k, double x) const { return 1 / (1 + std::exp(-weights_[betas_ + k] * x)); }

  void go_back(const sample& one, const reals& before, const reals& after, double of_y, reals& gradient) const {
    gradient[second_ + hidden_] += of_y;
    for (std::size_t k = 0; k < hidden_; ++k) {
      gradient[second_ + k] += of_y * after[k];
      const double of_after = of_y * weights_[second_ + k];
      double of_before = before[k] > 0 ? of_after : 0;
      if (has_swish_) {
        const double s = gate(k, before[k]);
        gradient[betas_ + k] += of_after * before[k] * before[k] * s * (1 - s);
        of_before = of_after * (s + weights_[betas_ + k] * before[k] * s * (1 - s));
      }
      gradient[in_ * hidden_ + k] += of_before;
      for (std::size_t j = 0; j < in_; ++j) gradient[in_ * k + j] += of_before * one.x[j];
    }
  }

  std::size_t in_;
  std::size_t hidden_;
  bool has_swish_;
  std::size_t betas_ = 0;
  std::size_t second_ = 0;
  reals weights_;
  reals momentum_;
  int steps_ = 0;
};

// -- data_parallel ----------------------------------------------------------------------------

std::vector<sample> product_part(int rank, int number) {
  std::vector<sample> made;
  for (int i = 0; i < 4; ++i) {
    const int n = (number * 4 + i) * 2 + rank;
    const float a = static_cast<float>(n * 7 % 19) / 19;
    const float b = static_cast<float>(n * 11 % 23) / 23;
    made.push_back({{a, b}, static_cast<double>(a * b)});
  }
  return made;
}

double loss_of_tests(const network& of) {
  double sum = 0;
  for (int part = 0; part < 16; ++part) sum += of.loss(product_part(0, 1000 + part)) / 16;
  return sum;
}

TEST(NetworkExamples, DataParallelTrainsAsDoubleArithmeticDoes) {
  network expected(2, 8, false);
  const double before = loss_of_tests(expected);
  for (int step = 0; step < 240; ++step) {
    const int batch = step % 12;
    const int ranks = batch < 9 ? 2 : 1;  // trainer 1 has 9 batches in an epoch
    reals gradient = expected.no_gradient();
    for (int rank = 0; rank < ranks; ++rank)
      for (int part = 0; part < 2; ++part) expected.loss(product_part(rank, batch * 2 + part), &gradient, 0.5 / ranks);
    expected.step(gradient);
  }
  const std::string output = output_of("data_parallel");
  std::array<double, 2> printed{};
  ASSERT_EQ(std::sscanf(output.c_str(), "loss %lf before, %lf after", &printed[0], &printed[1]), 2) << output;
  EXPECT_NEAR(printed[0], before, 1e-6);
  EXPECT_NEAR(printed[1], loss_of_tests(expected), 2e-5);
  EXPECT_LT(printed[1], printed[0] / 10);
  EXPECT_EQ(output_of("data_parallel", "--processes"), output);
}

// -- custom_layer -------------------------------------------------------------------------

std::vector<sample> sines(int first) {
  std::vector<sample> made;
  for (int i = 0; i < 8; ++i) {
    const float x = static_cast<float>((first + i) * 13 % 32) / 16 - 1;
    made.push_back({{x}, static_cast<double>(std::sin(3 * x))});
  }
  return made;
}

TEST(NetworkExamples, CustomLayerTrainsAsDoubleArithmeticDoes) {
  network expected(1, 16, true);
  const std::string output = output_of("custom_layer");
  std::size_t at = 0;
  for (int step = 0; step < 200; ++step) {
    reals gradient = expected.no_gradient();
    const double loss = expected.loss(sines(step * 16), &gradient, 0.5);
    expected.loss(sines(step * 16 + 8), &gradient, 0.5);
    expected.step(gradient);
    if (step % 50 != 49) continue;
    int number = 0;
    double printed = 0;
    ASSERT_EQ(std::sscanf(output.c_str() + at, "step %d: loss %lf", &number, &printed), 2) << output;
    EXPECT_EQ(number, step + 1);
    EXPECT_NEAR(printed, loss, 5e-5);
    at = output.find('\n', at) + 1;
  }
  EXPECT_EQ(output_of("custom_layer", "--processes"), output);
}

}  // namespace
}  // namespace troupe::network_examples_test
