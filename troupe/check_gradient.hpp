// A check of modules of one's own, for tests.

#pragma once

#include <cstddef>
#include <cstdint>

#include "troupe/module.hpp"
#include "troupe/tensor.hpp"

namespace troupe::nn {

/// How a module is checked.
struct gradient_check {
  /// Of initial parameters, of the pass's random numbers, and of the gradient that comes in.
  std::uint64_t key = 1;
  /// What `pass::training` says.
  bool training = true;
  /// How far the gradients may differ, relative to the larger of both, or to a tenth of the tensor's mean gradient.
  double tolerance = 0.01;
  /// The elements of each tensor that are checked, evenly spread, if it has more.
  std::size_t elements = 100;
};

/// Checks a module against its interface, with this input. Throws an `error` that names what is wrong, the tensor, the
/// element and both values:
/// - backward's gradients of input and parameters against differences of forward, which are taken in float32, with
/// steps
///   of 0.001 to 0.02: choose inputs and shapes for which outputs are around 1. Elements that have a kink there are
///   left out; it is an error if most have;
/// - forward, or the two ways to ask backward (at once, one after the other), that do not repeat their numbers;
/// - numbers written outside of outputs, saved numbers and gradients, or left unwritten in gradients;
/// - `ranges` and `backward_parameters` that do not fit.
/// It asks backward for both gradients and for each alone: one that writes a gradient that is not wanted crashes.
/// On the processor, without a cluster. Thread: any.
void check_gradient(const module& of, const tensor& input, const gradient_check& how = {});

}  // namespace troupe::nn
