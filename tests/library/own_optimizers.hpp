// A program's optimizers for tests: two that the library also has, Lion, and some that are refused or throw.

#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/job.hpp"
#include "model/optimizer.hpp"
#include "nn/own_optimizer.hpp"

namespace troupe::test {

using nn::weight_block;

/// a * b + c, rounded as the library's kernels round it on this processor.
inline float multiply_add(float a, float b, float c) {
  static const bool fuses = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  return fuses ? std::fma(a, b, c) : a * b + c;
}

inline bool is_fraction(double x) { return x >= 0 && x < 1; }

struct momentum_options {
  double momentum = 0.9;
  static const nn::option_fields<momentum_options>& fields() {
    static const auto all = nn::option_fields<momentum_options>().real("momentum", &momentum_options::momentum,
                                                                       "at least 0 and below 1", is_fraction);
    return all;
  }
};

/// sgd with momentum.
class own_momentum final : public nn::own_optimizer {
 public:
  using options = momentum_options;
  explicit own_momentum(const options& chosen) : momentum_(static_cast<float>(chosen.momentum)) {}

  int state_buffers() const override { return 1; }
  void update(const weight_block& of) const override {
    for (std::size_t i = 0; i < of.weights.size(); ++i) {
      of.first[i] = multiply_add(momentum_, of.first[i], of.gradient[i]);
      of.weights[i] = multiply_add(-static_cast<float>(of.lr), of.first[i], of.weights[i]);
    }
  }

 private:
  float momentum_;
};

struct squares_options {
  double eps = 1e-10;
  double initial = 0;
  static const nn::option_fields<squares_options>& fields() {
    static const auto is_positive = [](double x) { return x >= 0 && x < 1e6; };
    static const auto all = nn::option_fields<squares_options>()
                                .real("eps", &squares_options::eps, "at least 0 and below 1e6", is_positive)
                                .real("initial", &squares_options::initial, "at least 0 and below 1e6", is_positive);
    return all;
  }
};

/// adagrad.
class own_adagrad final : public nn::own_optimizer {
 public:
  using options = squares_options;
  explicit own_adagrad(const options& chosen)
      : eps_(static_cast<float>(chosen.eps)), initial_(static_cast<float>(chosen.initial)) {}

  int state_buffers() const override { return 1; }
  float initial_state() const override { return initial_; }
  void update(const weight_block& of) const override {
    for (std::size_t i = 0; i < of.weights.size(); ++i) {
      of.first[i] = multiply_add(of.gradient[i], of.gradient[i], of.first[i]);
      const float direction = of.gradient[i] / (std::sqrt(of.first[i]) + eps_);
      of.weights[i] = multiply_add(-static_cast<float>(of.lr), direction, of.weights[i]);
    }
  }

 private:
  float eps_;
  float initial_;
};

struct lion_options {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  bool flipped = false;
  std::size_t power = 1;
  static const nn::option_fields<lion_options>& fields() {
    static const auto all = nn::option_fields<lion_options>()
                                .real("beta1", &lion_options::beta1, "at least 0 and below 1", is_fraction)
                                .real("beta2", &lion_options::beta2, "at least 0 and below 1", is_fraction)
                                .real("weight_decay", &lion_options::weight_decay, "a number of 0 or more",
                                      [](double x) { return x >= 0 && x < 1000; })
                                .truth("flipped", &lion_options::flipped)
                                .whole("power", &lion_options::power, 1, 9, false);
    return all;
  }
};

/// Lion, of Chen and others (2023).
class own_lion final : public nn::own_optimizer {
 public:
  using options = lion_options;
  explicit own_lion(const options& chosen) : chosen_(chosen) {}

  int state_buffers() const override { return 1; }
  void update(const weight_block& of) const override {
    for (std::size_t i = 0; i < of.weights.size(); ++i) {
      const double g = of.gradient[i];
      const double m = of.first[i];
      const double c = chosen_.beta1 * m + (1 - chosen_.beta1) * g;
      const double direction = c > 0 ? 1 : c < 0 ? -1 : 0;
      const double w = of.weights[i];
      of.weights[i] = static_cast<float>(w - of.lr * (direction + chosen_.weight_decay * w));
      of.first[i] = static_cast<float>(chosen_.beta2 * m + (1 - chosen_.beta2) * g);
    }
  }

 private:
  options chosen_;
};

struct needy_options {
  std::size_t low = 0;
  std::size_t high = 0;
  static const nn::option_fields<needy_options>& fields() {
    static const auto all = nn::option_fields<needy_options>()
                                .whole("high", &needy_options::high, 1, 9)
                                .whole("low", &needy_options::low, 1, 9)
                                .that(
                                    "is below high", [](const needy_options& of) { return of.low < of.high; },
                                    [](const needy_options& of) { return std::to_string(of.high); });
    return all;
  }
};

class own_needy final : public nn::own_optimizer {
 public:
  using options = needy_options;
  explicit own_needy(const options& /*chosen*/) {}
  void update(const weight_block& /*of*/) const override {}
};

class own_nameless final : public nn::own_optimizer {
 public:
  struct options {
    double rate = 1;
    static const nn::option_fields<options>& fields() {
      static const auto all =
          nn::option_fields<options>().real("a rate", &options::rate, "any", [](double) { return true; });
      return all;
    }
  };
  explicit own_nameless(const options& /*chosen*/) {}
  void update(const weight_block& /*of*/) const override {}
};

/// w -= lr * step, whatever the gradient.
inline void count_steps(const weight_block& of) {
  for (float& w : of.weights) w -= static_cast<float>(of.lr * static_cast<double>(of.step));
}

/// w -= lr * g.
inline void go_down(const weight_block& of) {
  for (std::size_t i = 0; i < of.weights.size(); ++i) of.weights[i] -= static_cast<float>(of.lr) * of.gradient[i];
}

/// Adds the optimizers once in a process.
inline void add_own_optimizers() {
  static const bool added = [] {
    nn::add_optimizer<own_momentum>("own-momentum");
    nn::add_optimizer<own_adagrad>("own-adagrad");
    nn::add_optimizer<own_lion>("own-lion");
    nn::add_optimizer<own_needy>("own-needy");
    nn::add_optimizer("own-steps", 0, count_steps);
    nn::add_optimizer("own-descent", 0, go_down);
    nn::add_optimizer("own-throws", 2, [](const weight_block& of) {
      if (of.step == 3) throw std::runtime_error("no third step");
    });
    nn::add_optimizer("own-cut", 0, [](const weight_block& of) { of.weights[0] = 0; });
    nn::add_optimizer("own-many", 3, go_down);
    return true;
  }();
  ASSERT_TRUE(added);
}

/// A job of two trainers with tables; `more` overrides its settings.
inline std::vector<model::setting> short_job(const std::vector<model::setting>& more) {
  std::vector<model::setting> all = {{"data", "synthetic"}, {"tables", "2"},     {"rows", "50"},
                                     {"dim", "5"},          {"bag", "3"},        {"batch-size", "16"},
                                     {"steps", "12"},       {"hidden", "8,6"},   {"trainers", "2"},
                                     {"eval-every", "0"},   {"dense-lr", "0.1"}, {"sparse-lr", "0.2"}};
  for (const model::setting& one : more) {
    std::erase_if(all, [&](const model::setting& before) { return before.first == one.first; });
    all.push_back(one);
  }
  return all;
}

inline model::optimizer_spec spec_of(const std::string& text, model::optimizer_use use = model::optimizer_use::dense) {
  auto spec = model::parse_optimizer(text, use);
  EXPECT_TRUE(spec) << (spec ? "" : spec.error().message);
  return spec.value_or(model::optimizer_spec());
}

}  // namespace troupe::test
