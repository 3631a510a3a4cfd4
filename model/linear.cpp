#include "model/linear.hpp"

#include <cmath>

#include "model/random.hpp"

namespace troupe::model {

namespace {

/// Rounds a factor into `to`.
kernels::product_factor rounded(kernels::stream& on, std::size_t count, const float* numbers,
                                kernels::device_array<std::uint16_t>& to) {
  to.resize(on, count);
  on.round_to_bf16(count, numbers, to.data());
  return {numbers, to.data()};
}

}  // namespace

void saved_tensors::append_addresses(std::vector<const void*>& to) const {
  for (const auto* one : {&x, &weight, &grad}) to.push_back(one->data());
  to.push_back(mask.data());
}

void linear::initialize(std::uint64_t key, float* parameters) const {
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(in)));
  for (std::size_t i = 0; i < parameter_count(); ++i) parameters[i] = uniform(key, i, -bound, bound);
}

void linear::forward(kernels::stream& on, std::size_t batch, const float* parameters, const float* x, float* y,
                     saved_tensors* saved, bool masks) const {
  kernels::product_factor input = x;
  kernels::product_factor weight = parameters;
  std::byte* mask = nullptr;
  if (saved != nullptr && on.multiplies_in_bf16(in, out)) {
    input = rounded(on, batch * in, x, saved->x);
    weight = rounded(on, out * in, parameters, saved->weight);
  }
  if (saved != nullptr && masks && then == kernels::activation::relu && !on.device().is_host()) {
    saved->mask.resize(on, batch * kernels::relu_mask_bits(out) / 8);
    mask = saved->mask.data();
  }
  const bool has_mask = on.linear_forward(batch, in, out, input, weight, parameters + out * in, then, y, mask);
  if (saved != nullptr) saved->has_mask = has_mask;
}

void linear::backward_activation(kernels::stream& on, std::size_t batch, const float* y, const float* grad_y,
                                 float* grad) const {
  on.relu_backward(batch * out, y, grad_y, grad);
}

bool linear::backward_input(kernels::stream& on, std::size_t batch, const float* parameters, const float* grad,
                            float* grad_x, saved_tensors* saved, const saved_tensors* below) const {
  kernels::product_factor of_y = grad;
  if (saved != nullptr && on.multiplies_in_bf16(in, out)) of_y = rounded(on, batch * out, grad, saved->grad);
  if (grad_x == nullptr) return false;
  const std::byte* const mask = below != nullptr && below->has_mask ? below->mask.data() : nullptr;
  const kernels::product_factor weight{parameters, saved != nullptr ? saved->weight.data() : nullptr};
  return on.linear_backward_input(batch, in, out, weight, of_y, grad_x, mask);
}

void linear::backward_parameters(kernels::stream& on, std::size_t batch, const float* x, const float* grad,
                                 float* grad_parameters, const saved_tensors* saved) const {
  const kernels::product_factor input{x, saved != nullptr ? saved->x.data() : nullptr};
  const kernels::product_factor of_y{grad, saved != nullptr ? saved->grad.data() : nullptr};
  on.linear_backward_parameters(batch, in, out, input, of_y, grad_parameters, grad_parameters + out * in);
}

}  // namespace troupe::model
