#include "model/linear.hpp"

#include <cmath>

#include "model/random.hpp"

namespace troupe::model {

void linear::initialize(std::uint64_t key, float* parameters) const {
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(in)));
  for (std::size_t i = 0; i < parameter_count(); ++i) parameters[i] = uniform(key, i, -bound, bound);
}

void linear::forward(kernels::stream& on, std::size_t batch, const float* parameters, const float* x, float* y) const {
  on.linear_forward(batch, in, out, x, parameters, parameters + out * in, then, y);
}

void linear::backward_activation(kernels::stream& on, std::size_t batch, const float* y, const float* grad_y,
                                 float* grad) const {
  on.relu_backward(batch * out, y, grad_y, grad);
}

void linear::backward_input(kernels::stream& on, std::size_t batch, const float* parameters, const float* grad,
                            float* grad_x) const {
  on.linear_backward_input(batch, in, out, parameters, grad, grad_x);
}

void linear::backward_parameters(kernels::stream& on, std::size_t batch, const float* x, const float* grad,
                                 float* grad_parameters) const {
  on.linear_backward_parameters(batch, in, out, x, grad, grad_parameters, grad_parameters + out * in);
}

}  // namespace troupe::model
