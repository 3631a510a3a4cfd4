// A sum of non-negative doubles without rounding, so that its bits depend neither on the order nor on how the numbers
// are spread over servers.
//
// The sum is one long number in fixed point: limb i counts units of 2^(32i - 1074), which covers every double. A limb
// has 64 bits for its 32, so that carries can wait. (The idea of Kulisch's long accumulator; see Neal, Fast exact
// summation using small and large superaccumulators, 2015.)

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace troupe::model {

/// Not thread-safe.
class exact_sum {
 public:
  /// 66 limbs of the sum, and how many numbers were left out because they are not finite and at least 0.
  static constexpr std::size_t size = 67;

  /// The sum that `limbs` gave; nullopt if they cannot be such.
  static std::optional<exact_sum> from(std::span<const std::int64_t> limbs);

  /// Adds x. NaN, Inf and negative numbers are counted instead.
  void add(double x);

  /// Adds what `other` has.
  void merge(const exact_sum& other);

  /// The sum, rounded to the nearest double (ties to even); NaN if a number was left out, Inf beyond the largest.
  double value() const;

  /// What travels in a message; the same for equal sums.
  std::span<const std::int64_t> limbs();

 private:
  void carry();

  std::array<std::int64_t, size> limbs_{};
  /// How many numbers or sums the limbs have taken since the last carry.
  std::uint32_t taken_ = 0;
};

}  // namespace troupe::model
