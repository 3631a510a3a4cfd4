#include "model/zipf.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::model {

namespace {

// The integral of x^-1 is a logarithm, the others are powers. An exponent closer to 1 than this counts as 1: the
// power's rounding error would exceed the difference.
constexpr double power_min = 1e-6;

}  // namespace

zipf_distribution::zipf_distribution(std::uint64_t rows, double exponent)
    : rows_(rows),
      exponent_(exponent),
      power_(std::fabs(1 - exponent) < power_min ? 0 : 1 - exponent),
      // The histogram's first bar is left of the density's curve, so it starts at H(3/2) - density(1).
      integral_from_(integral(1.5) - 1),
      integral_to_(integral(static_cast<double>(rows) + 0.5)),
      accepted_at_once_(2 - inverse_integral(integral(2.5) - std::pow(2.0, -exponent))) {}

std::uint64_t zipf_distribution::draw(random_sequence& random) const {
  const auto last = static_cast<double>(rows_);
  for (;;) {
    const double u = integral_to_ + random.unit() * (integral_from_ - integral_to_);
    const double x = inverse_integral(u);
    const double k = std::clamp(std::floor(x + 0.5), 1.0, last);
    if (k - x <= accepted_at_once_ || u >= integral(k + 0.5) - std::pow(k, -exponent_))
      return static_cast<std::uint64_t>(k) - 1;
  }
}

double zipf_distribution::integral(double x) const { return power_ == 0 ? std::log(x) : std::pow(x, power_) / power_; }

double zipf_distribution::inverse_integral(double y) const {
  // Rounding may make the base negative where x would be infinite.
  return power_ == 0 ? std::exp(y) : std::pow(std::max(y * power_, 0.0), 1 / power_);
}

}  // namespace troupe::model
