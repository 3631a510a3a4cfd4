// A user's network: how well a user and an item match, from a vector of each, y = sum_d w_d u_d v_d + c.
// Two layers: `scale` w [dim], and `bias` c. It counts its training passes in a buffer, `passes`. For the processor.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/hybrid.hpp"
#include "model/loss.hpp"
#include "nn/module.hpp"

namespace troupe::actors {

class two_towers final : public nn::module {
 public:
  explicit two_towers(std::size_t dim) : dim_(dim) {}

  std::string type() const override { return "two_towers"; }
  std::vector<nn::parameter> parameters() const override { return {{"scale", {dim_}}, {"bias", {1}}}; }
  std::vector<nn::parameter> buffers() const override { return {{"passes", {1}}}; }
  std::vector<nn::parameter_range> ranges() const override { return {{0, dim_}, {dim_, 1}}; }
  void initialize(std::uint64_t seed, const nn::tensor_list<float>& parameters,
                  const nn::tensor_list<float>& buffers) const override {
    std::ranges::fill(parameters[0], 0.5F + 0.125F * static_cast<float>(seed));
    parameters[1][0] = -0.25F;
    buffers[0][0] = 100;
  }
  troupe::shape output(const troupe::tensor_view& input) const override { return {input.shape()[0], 1}; }

  void forward(const nn::pass& how, const nn::pass_numbers& numbers) const override {
    const auto input = numbers.input.as<float>();
    for (std::size_t i = 0; i < numbers.output.size(); ++i) {
      const float* u = input.data() + i * 2 * dim_;
      float y = 0;
      for (std::size_t d = 0; d < dim_; ++d) y += numbers.parameters[0][d] * u[d] * u[dim_ + d];
      numbers.output[i] = y + numbers.parameters[1][0];
    }
    if (how.training) numbers.buffers[0][0] += 1;
    last_pass = {how.training, how.key, how.first_sample};
  }

  void backward(const nn::pass& how, const nn::pass_numbers& numbers, const nn::gradients& of) const override {
    const auto input = numbers.input.as<float>();
    for (std::size_t i = 0; of.input && i < of.output.size(); ++i)
      for (std::size_t d = 0; d < dim_; ++d) {
        const std::size_t u = i * 2 * dim_ + d;
        of.input[u] = of.output[i] * numbers.parameters[0][d] * input[u + dim_];
        of.input[u + dim_] = of.output[i] * numbers.parameters[0][d] * input[u];
      }
    if (!of.parameters) return;
    nn::flat_gradient to(of.parameters.data());
    backward_parameters(how, numbers, of.output, to);
  }

  void backward_parameters(const nn::pass& /*how*/, const nn::pass_numbers& numbers,
                           const troupe::view<const float>& grad_y, nn::gradient_places& to) const override {
    const auto input = numbers.input.as<float>();
    float* bias = to.at({dim_, 1});
    *bias = 0;
    for (const float one : grad_y) *bias += one;
    to.finished({dim_, 1});
    float* scale = to.at({0, dim_});
    std::fill_n(scale, dim_, 0.0F);
    for (std::size_t i = 0; i < grad_y.size(); ++i)
      for (std::size_t d = 0; d < dim_; ++d)
        scale[d] += grad_y[i] * input[i * 2 * dim_ + d] * input[i * 2 * dim_ + dim_ + d];
    to.finished({0, dim_});
  }

  /// Arguments of the last forward pass.
  struct seen {
    bool training = false;
    std::uint64_t key = 0;
    std::uint64_t first_sample = 0;
  };
  mutable seen last_pass;

 private:
  std::size_t dim_;
};

inline model::network network_of(const std::shared_ptr<const two_towers>& towers, std::size_t dim) {
  return {towers, troupe::shape(2 * dim)};
}

/// The mean squared error of the outputs.
inline void squared_error(kernels::stream& on, kernels::batch_part samples, const model::loss_targets& targets,
                          float* outputs, double* loss) {
  on.mean_squared_error(samples, 1, outputs, targets.values, outputs, loss);
}

}  // namespace troupe::actors
