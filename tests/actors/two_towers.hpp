// A network that is none of Troupe's own: how well a user and an item go together, from a vector of each,
//   y = sum_d w_d u_d v_d + c.
// Two layers: `scale` w [dim], and `bias` c. It counts its training passes in a buffer, `passes`. For the processor.

#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "model/network.hpp"

namespace troupe::actors {

class two_towers final : public model::network {
 public:
  explicit two_towers(std::size_t dim) : dim_(dim) {}

  std::size_t in_features() const override { return 2 * dim_; }
  std::size_t out_features() const override { return 1; }
  std::vector<model::named_parameter> parameters() const override {
    return {{"scale", {dim_}, 0}, {"bias", {1}, dim_}};
  }
  std::vector<model::named_parameter> buffers() const override { return {{"passes", {1}, 0}}; }
  std::vector<model::parameter_range> ranges() const override { return {{0, dim_}, {dim_, 1}}; }
  std::size_t parameter_count() const override { return dim_ + 1; }
  std::size_t numbers_per_sample() const override { return 2; }
  std::uint64_t multiply_adds() const override { return dim_; }
  std::vector<float> initial_parameters(std::uint64_t seed) const override {
    std::vector<float> all(dim_ + 1, 0.5F + 0.125F * static_cast<float>(seed));
    all.back() = -0.25F;
    return all;
  }
  std::vector<float> initial_buffers() const override { return {100}; }

  struct activations final : model::network::activations {
    std::vector<float> y;
    float* outputs() const override { return const_cast<float*>(y.data()); }
    void append_addresses(std::vector<const void*>& to) const override { to.push_back(y.data()); }
  };
  std::unique_ptr<model::network::activations> make_activations() const override {
    return std::make_unique<activations>();
  }

  float* forward(kernels::stream&, const model::pass_mode& mode, std::size_t size, const tensors& numbers,
                 const float* input, model::network::activations& kept) const override {
    auto& y = static_cast<activations&>(kept).y;
    y.assign(size, 0);
    for (std::size_t i = 0; i < size; ++i) {
      const float* u = input + i * 2 * dim_;
      for (std::size_t d = 0; d < dim_; ++d) y[i] += numbers.parameters[d] * u[d] * u[dim_ + d];
      y[i] += numbers.parameters[dim_];
    }
    if (mode.training) *numbers.buffers += 1;
    last_mode = mode;
    return y.data();
  }

  void backward_inputs(kernels::stream&, const model::pass_mode&, std::size_t size, const tensors& numbers,
                       const float* input, model::network::activations&, const float* grad_y,
                       float* grad_input) const override {
    for (std::size_t i = 0; grad_input != nullptr && i < size; ++i)
      for (std::size_t d = 0; d < dim_; ++d) {
        const std::size_t u = i * 2 * dim_ + d;
        grad_input[u] = grad_y[i] * numbers.parameters[d] * input[u + dim_];
        grad_input[u + dim_] = grad_y[i] * numbers.parameters[d] * input[u];
      }
  }

  void backward_parameters(kernels::stream&, std::size_t size, const float* input, const model::network::activations&,
                           const float* grad_y, const std::function<float*(model::parameter_range)>& grad_at,
                           const std::function<void(model::parameter_range)>& finished) const override {
    float* bias = grad_at({dim_, 1});
    *bias = 0;
    for (std::size_t i = 0; i < size; ++i) *bias += grad_y[i];
    finished({dim_, 1});
    float* scale = grad_at({0, dim_});
    std::fill_n(scale, dim_, 0.0F);
    for (std::size_t i = 0; i < size; ++i)
      for (std::size_t d = 0; d < dim_; ++d)
        scale[d] += grad_y[i] * input[i * 2 * dim_ + d] * input[i * 2 * dim_ + dim_ + d];
    finished({0, dim_});
  }

  /// Of the last forward pass.
  mutable model::pass_mode last_mode;

 private:
  std::size_t dim_;
};

/// The mean squared error of its outputs.
inline void squared_error(kernels::stream& on, kernels::batch_part samples, const model::loss_targets& targets,
                          float* outputs, double* loss) {
  on.mean_squared_error(samples, 1, outputs, targets.values, outputs, loss);
}

}  // namespace troupe::actors
