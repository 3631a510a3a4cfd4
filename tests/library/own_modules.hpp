// Modules as users write them, for tests.

#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "troupe/module.hpp"

namespace troupe::test {

/// y = w x, feature by feature. Initial weights: 1.
class scale : public nn::module {
 public:
  explicit scale(std::size_t features) : features_(features) {}

  std::string type() const override { return "scale"; }
  std::vector<nn::parameter> parameters() const override { return {{"weight", {features_}}}; }
  void initialize(std::uint64_t /*key*/, float* parameters, float* /*buffers*/) const override {
    std::fill_n(parameters, features_, 1.0F);
  }
  troupe::shape output(const tensor& input) const override {
    nn::check_features(*this, input, features_);
    return input.shape();
  }
  void forward(const nn::pass& /*how*/, const nn::pass_numbers& numbers) const override {
    const auto x = numbers.input.as<float>();
    for (std::size_t i = 0; i < x.size(); ++i) numbers.output[i] = numbers.parameters[i % features_] * x[i];
  }
  void backward(const nn::pass& /*how*/, const nn::pass_numbers& numbers, const float* grad_output, float* grad_input,
                float* grad_parameters) const override {
    const auto x = numbers.input.as<float>();
    if (grad_input != nullptr)
      for (std::size_t i = 0; i < x.size(); ++i) grad_input[i] = numbers.parameters[i % features_] * grad_output[i];
    if (grad_parameters == nullptr) return;
    std::fill_n(grad_parameters, features_, 0.0F);
    for (std::size_t i = 0; i < x.size(); ++i) grad_parameters[i % features_] += x[i] * grad_output[i];
  }

 private:
  std::size_t features_;
};

}  // namespace troupe::test
