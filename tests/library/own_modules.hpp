// Users' modules, for tests.

#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "model/random.hpp"
#include "troupe/module.hpp"

namespace troupe::test {

/// y = w x, feature by feature. Initial weights: 1.
class scale : public nn::module {
 public:
  explicit scale(std::size_t features) : features_(features) {}

  std::string type() const override { return "scale"; }
  std::vector<nn::parameter> parameters() const override { return {{"weight", {features_}}}; }
  void initialize(std::uint64_t /*key*/, const nn::tensor_list<float>& parameters,
                  const nn::tensor_list<float>& /*buffers*/) const override {
    std::ranges::fill(parameters[0], 1.0F);
  }
  troupe::shape output(const tensor_view& input) const override {
    nn::check_features(*this, input, features_);
    return input.shape();
  }
  void forward(const nn::pass& /*how*/, const nn::pass_numbers& numbers) const override {
    const auto x = numbers.input.as<float>();
    for (std::size_t i = 0; i < x.size(); ++i) numbers.output[i] = numbers.parameters[0][i % features_] * x[i];
  }
  void backward(const nn::pass& /*how*/, const nn::pass_numbers& numbers, const nn::gradients& of) const override {
    const auto x = numbers.input.as<float>();
    if (of.input)
      for (std::size_t i = 0; i < x.size(); ++i) of.input[i] = numbers.parameters[0][i % features_] * of.output[i];
    if (!of.parameters) return;
    std::ranges::fill(of.parameters[0], 0.0F);
    for (std::size_t i = 0; i < x.size(); ++i) of.parameters[0][i % features_] += x[i] * of.output[i];
  }

 private:
  std::size_t features_;
};

/// When training, sets half of the numbers to 0 and doubles the others; the key determines which ones.
class dropout : public nn::module {
 public:
  std::string type() const override { return "dropout"; }
  troupe::shape output(const tensor_view& input) const override { return input.shape(); }
  void forward(const nn::pass& how, const nn::pass_numbers& numbers) const override {
    const auto x = numbers.input.as<float>();
    for (std::size_t i = 0; i < x.size(); ++i) numbers.output[i] = x[i] * factor(how, i);
  }
  void backward(const nn::pass& how, const nn::pass_numbers& numbers, const nn::gradients& of) const override {
    for (std::size_t i = 0; of.input && i < numbers.input.count(); ++i) of.input[i] = of.output[i] * factor(how, i);
  }
  bool uses_key() const override { return true; }

 private:
  static float factor(const nn::pass& how, std::size_t i) {
    if (!how.training) return 1;
    return model::random_bits(how.key, i) % 2 == 0 ? 0.0F : 2.0F;
  }
};

/// Subtracts a running mean of each feature; in training, mean = (mean + the batch's mean) / 2.
class running_mean : public nn::module {
 public:
  explicit running_mean(std::size_t features) : features_(features) {}

  std::string type() const override { return "running_mean"; }
  std::vector<nn::parameter> buffers() const override { return {{"mean", {features_}}}; }
  troupe::shape output(const tensor_view& input) const override {
    nn::check_features(*this, input, features_);
    return input.shape();
  }
  void forward(const nn::pass& how, const nn::pass_numbers& numbers) const override {
    const auto x = numbers.input.as<float>();
    for (std::size_t i = 0; i < x.size(); ++i) numbers.output[i] = x[i] - numbers.buffers[0][i % features_];
    if (!how.training) return;
    const auto rows = static_cast<float>(numbers.input.shape()[0]);
    for (std::size_t k = 0; k < features_; ++k) {
      float sum = 0;
      for (std::size_t i = k; i < x.size(); i += features_) sum += x[i];
      numbers.buffers[0][k] = (numbers.buffers[0][k] + sum / rows) / 2;
    }
  }
  void backward(const nn::pass& /*how*/, const nn::pass_numbers& /*numbers*/, const nn::gradients& of) const override {
    if (of.input) std::ranges::copy(of.output, of.input.begin());
  }

 private:
  std::size_t features_;
};

}  // namespace troupe::test
