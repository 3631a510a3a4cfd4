// REINFORCE for two actions: a small network gives the probability of the second, and learns from whole episodes of
// many concurrent environments.

#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cart_pole.hpp"

namespace reinforce {

/// A network with one hidden layer: the probability of the second action is sigmoid(w2 relu(W1 x + b1) + b2).
class policy {
 public:
  static constexpr std::size_t features = cart_pole::features;
  static constexpr std::size_t hidden = 32;
  /// W1 [features, hidden], b1 [hidden], w2 [hidden] and b2, concatenated.
  static constexpr std::size_t size = (features + 2) * hidden + 1;
  using numbers = std::array<float, size>;

  /// Weights are uniform in +-1/sqrt(inputs of the layer).
  explicit policy(std::uint64_t seed) : w_() {
    for (std::size_t i = 0; i < size; ++i) {
      const double inputs = i < (features + 1) * hidden ? features : hidden;
      w_[i] = 1 / std::sqrt(inputs) * (2 * uniform(seed, i, UINT64_MAX, 0) - 1);
    }
  }

  /// `x` [features].
  float probability(const float* x) const {
    const auto h = layer(x);
    std::array<float, 8> sums = {};
    for (std::size_t j = 0; j < hidden; j += sums.size())
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += h[j + k] * w_[w2 + j + k];
    float logit = w_[b2];
    for (const float sum : sums) logit += sum;
    return 1 / (1 + std::exp(-logit));
  }

  /// Adds `by` times the gradient of the logit at `x`.
  void add_gradient(const float* x, float by, numbers& to) const {
    const auto h = layer(x);
    std::array<float, hidden> back;
    for (std::size_t j = 0; j < hidden; ++j) back[j] = h[j] > 0 ? by : 0;
    for (std::size_t j = 0; j < hidden; ++j) back[j] *= w_[w2 + j];
    for (std::size_t i = 0; i < features; ++i)
      for (std::size_t j = 0; j < hidden; ++j) to[i * hidden + j] += x[i] * back[j];
    for (std::size_t j = 0; j < hidden; ++j) to[b1 + j] += back[j];
    for (std::size_t j = 0; j < hidden; ++j) to[w2 + j] += by * h[j];
    to[b2] += by;
  }

  numbers& weights() { return w_; }
  const numbers& weights() const { return w_; }

 private:
  static constexpr std::size_t b1 = features * hidden, w2 = b1 + hidden, b2 = w2 + hidden;

  std::array<float, hidden> layer(const float* x) const {
    std::array<float, hidden> h;
    for (std::size_t j = 0; j < hidden; ++j) h[j] = w_[b1 + j];
    for (std::size_t i = 0; i < features; ++i)
      for (std::size_t j = 0; j < hidden; ++j) h[j] += x[i] * w_[i * hidden + j];
    for (float& one : h) one = one > 0 ? one : 0;
    return h;
  }

  numbers w_;
};

/// The results of one step of all environments still running: one row each.
struct played_step {
  std::vector<std::size_t> environments = {};
  std::vector<float> states = {};  ///< [rows, features]
  std::vector<float> probabilities = {};
  std::vector<bool> actions = {};
  std::vector<double> rewards = {};

  void add_rewards(const std::vector<double>& more) { rewards.insert(rewards.end(), more.begin(), more.end()); }
};

/// The sum of each environment's rewards.
inline std::vector<double> episode_rewards(const std::vector<played_step>& played, std::size_t environments) {
  std::vector<double> sums(environments);
  for (const played_step& step : played)
    for (std::size_t i = 0; i < step.environments.size(); ++i) sums[step.environments[i]] += step.rewards[i];
  return sums;
}

/// Turns rewards into advantages, one row per environment and step: the discounted return minus its mean over the
/// step's rows, divided by its standard deviation. Episodes that are still running have the same time left, so the mean
/// is a baseline that knows the step limit.
inline std::vector<std::vector<double>> advantages(const std::vector<played_step>& played, std::size_t environments,
                                                   double discount) {
  std::vector<double> returns(environments);
  std::vector<std::vector<double>> all(played.size());
  double squares = 0;
  std::size_t rows = 0;
  for (std::size_t t = played.size(); t-- > 0;) {
    const played_step& step = played[t];
    double mean = 0;
    for (std::size_t i = 0; i < step.environments.size(); ++i) {
      double& of = returns[step.environments[i]];
      of = step.rewards[i] + discount * of;
      mean += of / step.environments.size();
    }
    for (const std::size_t environment : step.environments) {
      all[t].push_back(returns[environment] - mean);
      squares += all[t].back() * all[t].back();
    }
    rows += step.environments.size();
  }
  const double deviation = std::sqrt(squares / rows) + 1e-8;
  for (auto& step : all)
    for (double& advantage : step) advantage /= deviation;
  return all;
}

/// The gradient of the loss: the mean over all rows of -advantage * log(probability of the chosen action).
inline policy::numbers loss_gradient(const policy& of, const std::vector<played_step>& played, std::size_t environments,
                                     double discount) {
  const auto advantage = advantages(played, environments, discount);
  policy::numbers gradient = {};
  std::size_t rows = 0;
  for (std::size_t t = 0; t < played.size(); ++t) {
    const played_step& step = played[t];
    rows += step.environments.size();
    for (std::size_t i = 0; i < step.environments.size(); ++i) {
      const float miss = (step.actions[i] ? 1.0F : 0.0F) - step.probabilities[i];  // d log(probability) / d logit
      const float by = advantage[t][i];
      of.add_gradient(&step.states[i * policy::features], -by * miss, gradient);
    }
  }
  const float count = std::max<std::size_t>(rows, 1);
  for (float& one : gradient) one /= count;
  return gradient;
}

/// Adam's steps.
class adam_steps {
 public:
  explicit adam_steps(double lr) : lr_(lr) {}

  void step(policy::numbers& weights, const policy::numbers& gradient) {
    ++steps_;
    const double mean_share = 1 - std::pow(0.9, steps_), square_share = 1 - std::pow(0.999, steps_);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double g = gradient[i];
      means_[i] = 0.9 * means_[i] + 0.1 * g;
      squares_[i] = 0.999 * squares_[i] + 0.001 * g * g;
      const float change = lr_ * (means_[i] / mean_share) / (std::sqrt(squares_[i] / square_share) + 1e-8);
      weights[i] -= change;
    }
  }

 private:
  double lr_;
  int steps_ = 0;
  std::array<double, policy::size> means_ = {};
  std::array<double, policy::size> squares_ = {};
};

}  // namespace reinforce
