// A multi-layer perceptron as a network.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "model/mlp.hpp"
#include "model/network.hpp"

namespace troupe::model {

class mlp_network final : public network {
 public:
  /// `number` distinguishes the networks of a model, for their initial parameters.
  explicit mlp_network(mlp of, std::uint64_t number = 0) : mlp_(std::move(of)), number_(number) {}

  struct activations final : network::activations {
    mlp::activations layers;

    float* outputs() const override { return layers.outputs.back().data(); }
    void append_addresses(std::vector<const void*>& to) const override { layers.append_addresses(to); }
  };

  std::size_t in_features() const override { return mlp_.in_features(); }
  std::size_t out_features() const override { return mlp_.out_features(); }
  std::size_t parameter_count() const override { return mlp_.parameter_count(); }
  std::size_t numbers_per_sample() const override { return 2 * mlp_.numbers_per_sample(); }
  std::uint64_t multiply_adds() const override { return mlp_.multiply_adds(); }
  std::vector<named_parameter> parameters() const override { return mlp_.parameters(); }
  std::vector<parameter_range> ranges() const override { return mlp_.ranges(); }
  std::vector<float> initial_parameters(std::uint64_t seed) const override {
    return mlp_.initial_parameters(seed, number_);
  }
  std::unique_ptr<network::activations> make_activations() const override { return std::make_unique<activations>(); }

  float* forward(kernels::stream& on, const pass_mode& mode, std::size_t size, const tensors& numbers,
                 const float* input, network::activations& kept) const override {
    return mlp_.forward(on, size, numbers.parameters, input, of(kept), mode.training);
  }
  void backward_inputs(kernels::stream& on, const pass_mode& /*mode*/, std::size_t size, const tensors& numbers,
                       const float* /*input*/, network::activations& kept, const float* grad_outputs,
                       float* grad_input) const override {
    mlp_.backward_inputs(on, size, numbers.parameters, of(kept), grad_outputs, grad_input);
  }
  void backward_parameters(kernels::stream& on, std::size_t size, const float* input, const network::activations& kept,
                           const float* grad_outputs, const std::function<float*(parameter_range)>& grad_at,
                           const std::function<void(parameter_range)>& finished) const override {
    mlp_.backward_parameters(on, size, input, static_cast<const activations&>(kept).layers, grad_outputs, grad_at,
                             finished);
  }

 private:
  static mlp::activations& of(network::activations& kept) { return static_cast<activations&>(kept).layers; }

  mlp mlp_;
  std::uint64_t number_;
};

}  // namespace troupe::model
