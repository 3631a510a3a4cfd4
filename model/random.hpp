// Random numbers without state: a value is a hash of (key, counter), so that any value can be had at any time, in any
// order and on any machine with the same bits. The mixing function is the finalizer of SplitMix64 (Steele, Lea,
// Flood: Fast splittable pseudorandom number generators, 2014).

#pragma once

#include <cstdint>

namespace troupe {

/// What a stream of numbers is for; keeps streams of one seed apart.
enum class random_stream : std::uint64_t { table_weights = 1, dense_weights, shuffle, tutorial, synthetic, synthetic_test, planted };

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

/// A stream read one after the other.
class random_sequence {
 public:
  explicit constexpr random_sequence(std::uint64_t key) : key_(key) {}

  constexpr std::uint64_t bits() { return random_bits(key_, counter_++); }

  /// Uniform in [0, bound), by multiplication (Lemire, 2019); the bias is below bound / 2^64. bound must not be 0.
  constexpr std::uint64_t below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits()) * bound) >> 64);
  }

  /// Uniform in [0, 1), 53 bits.
  constexpr double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

}  // namespace troupe
