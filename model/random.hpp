// Counter-based random numbers: a value is a hash of (key, counter) (kernels/random_bits.hpp), so values can be
// computed in any order, with the same bits on any machine.
//
// All functions are pure. Thread: any.

#pragma once

#include <cstdint>

#include "base/uint128.hpp"
#include "kernels/random_bits.hpp"

namespace troupe::model {

/// The purpose of a stream; streams of one seed and different purposes are independent.
enum class random_stream : std::uint64_t {
  table_weights = 1,
  dense_weights,
  shuffle,
  tutorial,
  synthetic,
  synthetic_test,
  planted,
  window_shuffle,
  held_out,
  network_passes
};

using kernels::mix;
using kernels::random_bits;
using kernels::uniform;
using kernels::unit_from;

/// Returns the part of a key before its last number b: `random_key(seed, stream, a, b)` is mix(base + b).
constexpr std::uint64_t random_key_base(std::uint64_t seed, random_stream stream, std::uint64_t a) {
  return mix(mix(mix(seed) + static_cast<std::uint64_t>(stream)) + a);
}

/// Returns a stream's key from a seed, a purpose and up to two numbers (table and row, step and rank, ...).
constexpr std::uint64_t random_key(std::uint64_t seed, random_stream stream, std::uint64_t a = 0, std::uint64_t b = 0) {
  return mix(random_key_base(seed, stream, a) + b);
}

/// Uniform in [0, bound), by multiplication (Lemire, 2019); the bias is below bound / 2^64. Requires: bound is not 0.
constexpr std::uint64_t below_from(std::uint64_t bits, std::uint64_t bound) { return multiply_high(bits, bound); }

/// A stream that is read sequentially.
class random_sequence {
 public:
  /// `first`: how many numbers are skipped.
  explicit constexpr random_sequence(std::uint64_t key, std::uint64_t first = 0) : key_(key), counter_(first) {}

  constexpr std::uint64_t bits() { return random_bits(key_, counter_++); }

  /// Uniform in [0, bound). Requires: bound is not 0.
  constexpr std::uint64_t below(std::uint64_t bound) { return below_from(bits(), bound); }

  /// Uniform in [0, 1), 53 bits.
  constexpr double unit() { return unit_from(bits()); }

 private:
  std::uint64_t key_;
  std::uint64_t counter_;
};

/// Returns element `i` of the pseudo-random permutation `key` of [0, n). Requires: i < n. It is an alternating Feistel
/// network over the smallest power of two that holds n, repeated until the result is below n (cycle walking: Black &
/// Rogaway, Ciphers with arbitrary finite domains, 2002), on average less than twice.
std::uint64_t shuffled(std::uint64_t n, std::uint64_t key, std::uint64_t i);

}  // namespace troupe::model
