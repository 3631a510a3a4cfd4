#include "model/layers.hpp"

#include <cmath>

#include "kernels/elementwise.hpp"
#include "kernels/linear.hpp"
#include "model/random.hpp"

namespace troupe {

std::vector<named_parameter> linear::parameters() const {
  return {{"weight", {out_, in_}, 0}, {"bias", {out_}, out_ * in_}};
}

void linear::initialize(std::uint64_t key, float* parameters) const {
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(in_)));
  for (std::size_t i = 0; i < parameter_count(); ++i) parameters[i] = uniform(key, i, -bound, bound);
}

void linear::forward(std::size_t batch, const float* parameters, const float* x, float* y) const {
  kernels::linear_forward(batch, in_, out_, x, parameters, parameters + out_ * in_, y);
}

void linear::backward_input(std::size_t batch, const float* parameters, const float* /*x*/, const float* /*y*/,
                            const float* grad_y, float* grad_x) const {
  kernels::linear_backward_input(batch, in_, out_, parameters, grad_y, grad_x);
}

void linear::backward_parameters(std::size_t batch, const float* x, const float* grad_y, float* grad_parameters) const {
  kernels::linear_backward_parameters(batch, in_, out_, x, grad_y, grad_parameters, grad_parameters + out_ * in_);
}

void relu::forward(std::size_t batch, const float* /*parameters*/, const float* x, float* y) const {
  kernels::relu_forward(batch * features_, x, y);
}

void relu::backward_input(std::size_t batch, const float* /*parameters*/, const float* /*x*/, const float* y,
                          const float* grad_y, float* grad_x) const {
  kernels::relu_backward(batch * features_, y, grad_y, grad_x);
}

}  // namespace troupe
