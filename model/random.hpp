// Random numbers without state: a value is a hash of (key, counter), so that any value can be had at any time, in any
// order and on any machine with the same bits. The mixing function is the finalizer of SplitMix64 (Steele, Lea,
// Flood: Fast splittable pseudorandom number generators, 2014).
//
// All functions are pure and may be called from any thread.

#pragma once

#include <cstdint>
#include <span>

namespace troupe::model {

/// What a stream of numbers is for; keeps streams of one seed apart.
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

constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// Value number `counter` of the stream `key`.
constexpr std::uint64_t random_bits(std::uint64_t key, std::uint64_t counter) {
  return mix(key + (counter + 1) * 0x9e3779b97f4a7c15ULL);
}

/// A stream's key from a seed, a purpose and up to two numbers (table and row, step and rank, ...).
constexpr std::uint64_t random_key(std::uint64_t seed, random_stream stream, std::uint64_t a = 0, std::uint64_t b = 0) {
  return mix(mix(mix(mix(seed) + static_cast<std::uint64_t>(stream)) + a) + b);
}

/// Uniform in [0, 1): the upper 53 of 64 random bits.
constexpr double unit_from(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

/// Uniform in [0, bound), by multiplication (Lemire, 2019); the bias is below bound / 2^64. bound must not be 0.
constexpr std::uint64_t below_from(std::uint64_t bits, std::uint64_t bound) {
  __extension__ typedef unsigned __int128 wide;
  return static_cast<std::uint64_t>((static_cast<wide>(bits) * bound) >> 64);
}

/// A stream read one after the other.
class random_sequence {
 public:
  explicit constexpr random_sequence(std::uint64_t key) : key_(key) {}

  constexpr std::uint64_t bits() { return random_bits(key_, counter_++); }

  /// Uniform in [0, bound); bound must not be 0.
  constexpr std::uint64_t below(std::uint64_t bound) { return below_from(bits(), bound); }

  /// Uniform in [0, 1), 53 bits.
  constexpr double unit() { return unit_from(bits()); }

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

/// Value number `counter` of the stream `key`, uniform between `low` and `high`:
/// low + (high - low) * unit, computed in double and rounded to float (so `high` itself can occur).
float uniform(std::uint64_t key, std::uint64_t counter, float low, float high);

/// The first values of the stream `key`, normal with mean 0 and deviation 1: out[i] from the stream's values number 2*i
/// and 2*i + 1 as `kernels::box_muller` makes it.
void standard_normals(std::uint64_t key, std::span<float> out);

/// Element `i` of a pseudo-random permutation of [0, n), chosen by `key`; i < n. An alternating Feistel network over
/// the smallest power of two that holds n, repeated until the result is below n (cycle walking: Black & Rogaway,
/// Ciphers with arbitrary finite domains, 2002). Takes less than two passes on average.
std::uint64_t shuffled(std::uint64_t n, std::uint64_t key, std::uint64_t i);

}  // namespace troupe::model
