// An exact sum of non-negative doubles: its bits depend neither on the order nor on the distribution over servers.
//
// The sum is a long fixed-point number: limb i counts units of 2^(32i - 1074), which covers every double. A limb has 64
// bits for 32 of the sum, so that carries can be delayed. (Kulisch's long accumulator; see Neal, Fast exact summation
// using small and large superaccumulators, 2015.)

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace troupe::model {

/// Thread: one at a time.
class exact_sum {
 public:
  /// 66 limbs of the sum, and the count of numbers left out (negative, NaN or Inf).
  static constexpr std::size_t size = 67;

  /// Returns the sum with these limbs; null if they are invalid.
  static std::optional<exact_sum> from(std::span<const std::int64_t> limbs);

  /// Adds x. NaN, Inf and negative numbers are counted instead.
  void add(double x);

  /// Adds the sum `other`.
  void merge(const exact_sum& other);

  /// Returns the sum rounded to the nearest double (ties to even); NaN if a number was left out, Inf if it is too
  /// large.
  double value() const;

  /// Returns the limbs for a message; equal sums have equal limbs.
  std::span<const std::int64_t> limbs();

 private:
  void carry();

  std::array<std::int64_t, size> limbs_{};
  /// Additions to the limbs since the last carry.
  std::uint32_t taken_ = 0;
};

}  // namespace troupe::model
