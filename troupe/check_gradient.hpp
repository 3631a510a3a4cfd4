// Checks a user's module, for tests.

#pragma once

#include <cstddef>
#include <cstdint>

#include "troupe/module.hpp"
#include "troupe/tensor.hpp"

namespace troupe::nn {

/// Settings of the check.
struct gradient_check {
  /// Seeds the initial parameters, the pass's random numbers and the incoming gradient.
  std::uint64_t key = 1;
  /// The value of `pass::training`.
  bool training = true;
  /// The largest allowed difference, relative to the larger gradient, or to a tenth of the tensor's mean gradient.
  double tolerance = 0.01;
  /// How many elements of each tensor are checked at most, evenly spread.
  std::size_t elements = 100;
};

/// Checks a module against its interface, with this input. Throws an `error` that names the fault, the tensor, the
/// element and both values. It checks:
/// - backward's gradients of input and parameters against differences of forward in float32, with steps of 0.001 to
///   0.02: choose inputs and shapes that give outputs around 1. Elements at a kink are skipped; it is an error if most
///   have one;
/// - that forward and both ways to call backward (at once, or in two calls) repeat their numbers;
/// - that no numbers are written outside of outputs, saved numbers and gradients, and that all gradients are written;
/// - that `ranges` and `backward_parameters` match.
/// It calls backward for both gradients and for each alone: a backward that writes an unwanted gradient crashes.
/// Runs on the processor, without a cluster. Thread: any.
void check_gradient(const module& of, const tensor& input, const gradient_check& how = {});

}  // namespace troupe::nn
