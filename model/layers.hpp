// The layers: linear and ReLU.

#pragma once

#include "model/module.hpp"

namespace troupe {

/// y = x W^T + b. Parameters: W [out, in] row-major, then b [out]. Both start uniform in ±1/sqrt(in).
class linear final : public module {
 public:
  linear(std::size_t in, std::size_t out) : in_(in), out_(out) {}

  std::size_t in_features() const override { return in_; }
  std::size_t out_features() const override { return out_; }
  std::size_t parameter_count() const override { return out_ * in_ + out_; }
  std::vector<named_parameter> parameters() const override;
  void initialize(std::uint64_t key, float* parameters) const override;
  void forward(std::size_t batch, const float* parameters, const float* x, float* y) const override;
  void backward_input(std::size_t batch, const float* parameters, const float* x, const float* y, const float* grad_y,
                      float* grad_x) const override;
  void backward_parameters(std::size_t batch, const float* x, const float* grad_y,
                           float* grad_parameters) const override;

 private:
  std::size_t in_;
  std::size_t out_;
};

/// y = max(x, 0).
class relu final : public module {
 public:
  explicit relu(std::size_t features) : features_(features) {}

  bool works_in_place() const override { return true; }
  std::size_t in_features() const override { return features_; }
  std::size_t out_features() const override { return features_; }
  void forward(std::size_t batch, const float* parameters, const float* x, float* y) const override;
  void backward_input(std::size_t batch, const float* parameters, const float* x, const float* y, const float* grad_y,
                      float* grad_x) const override;

 private:
  std::size_t features_;
};

}  // namespace troupe
