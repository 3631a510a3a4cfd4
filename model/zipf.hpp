// Zipf-distributed row numbers.

#pragma once

#include <cstdint>

#include "model/random.hpp"

namespace troupe::model {

/// Draws row numbers 0 .. rows-1 with probability proportional to 1 / (row + 1)^exponent, in constant time and memory
/// by rejection-inversion (W. Hörmann, G. Derflinger: Rejection-inversion to generate variates from monotone discrete
/// distributions, ACM TOMACS 6(3), 1996). Immutable. Thread: any.
class zipf_distribution {
 public:
  /// Requires: rows >= 1, exponent > 0.
  zipf_distribution(std::uint64_t rows, double exponent);

  /// Uses one number of `random` per attempt, on average less than 1.1.
  std::uint64_t draw(random_sequence& random) const;

 private:
  // The paper's H, an integral of the density x^-exponent, and its inverse.
  double integral(double x) const;
  double inverse_integral(double y) const;

  std::uint64_t rows_;
  double exponent_;
  // 1 - exponent
  double power_;
  double integral_from_;
  double integral_to_;
  double accepted_at_once_;
};

}  // namespace troupe::model
