// A differentiable function of a batch of rows, with explicit forward and backward.
//
// Modules hold shapes, not numbers: parameters, activations and gradients belong to the caller. So one module serves
// any number of contexts at once and may be called from any thread on disjoint buffers.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace troupe {

/// One tensor of a module's or a network's parameters: `first` is where it begins in their buffer.
struct named_parameter {
  std::string name;
  std::vector<std::size_t> shape;
  std::size_t first = 0;

  std::size_t count() const { return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies{}); }

  bool operator==(const named_parameter&) const = default;
};

class module {
 public:
  virtual ~module() = default;

  virtual std::size_t in_features() const = 0;
  virtual std::size_t out_features() const = 0;
  virtual std::size_t parameter_count() const { return 0; }

  /// The tensors that the parameters consist of, in the order of their buffer and without gaps.
  virtual std::vector<named_parameter> parameters() const { return {}; }

  /// Whether y may be x and grad_x may be grad_y, so that no further buffer is needed. Not with parameters: their
  /// gradient is computed when x's already is.
  virtual bool works_in_place() const { return false; }

  /// Fills `parameters` with initial weights, a function of `key` alone.
  virtual void initialize(std::uint64_t /*key*/, float* /*parameters*/) const {}

  /// y [batch, out] from x [batch, in].
  virtual void forward(std::size_t batch, const float* parameters, const float* x, float* y) const = 0;

  /// From the gradient of y that of x, overwritten. x and y are those of the forward pass; where y took the place of x,
  /// both are y.
  virtual void backward_input(std::size_t batch, const float* parameters, const float* x, const float* y,
                              const float* grad_y, float* grad_x) const = 0;

  /// From the gradient of y that of the parameters, overwritten.
  virtual void backward_parameters(std::size_t /*batch*/, const float* /*x*/, const float* /*grad_y*/,
                                   float* /*grad_parameters*/) const {}
};

}  // namespace troupe
