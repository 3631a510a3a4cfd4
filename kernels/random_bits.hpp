// Random bits as a hash of (key, counter): any of them at any time, the same on every machine. The mixing function is
// the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). Thread: any.

#pragma once

#include <cstdint>
#include <span>

namespace troupe::kernels {

namespace splitmix {
inline constexpr std::uint64_t increment = 0x9e3779b97f4a7c15;
inline constexpr std::uint64_t first_factor = 0xbf58476d1ce4e5b9;
inline constexpr std::uint64_t second_factor = 0x94d049bb133111eb;
}  // namespace splitmix

constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * splitmix::first_factor;
  z = (z ^ (z >> 27)) * splitmix::second_factor;
  return z ^ (z >> 31);
}

/// Returns value `counter` of the stream `key`.
constexpr std::uint64_t random_bits(std::uint64_t key, std::uint64_t counter) {
  return mix(key + (counter + 1) * splitmix::increment);
}

/// out[i] = random_bits(key, first + i), and out[i] = random_bits(key, counters[i]): faster than one by one. `out` may
/// be `counters`.
void draw_bits(std::uint64_t key, std::uint64_t first, std::span<std::uint64_t> out);
void draw_bits(std::uint64_t key, std::span<const std::uint64_t> counters, std::uint64_t* out);

/// Uniform in [0, 1): the upper 53 of 64 random bits.
constexpr double unit_from(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

/// Returns value `counter` of the stream `key`, uniform between `low` and `high`: low + (high - low) * unit, computed
/// in double and rounded to float (so `high` can occur).
constexpr float uniform(std::uint64_t key, std::uint64_t counter, float low, float high) {
  const double width = static_cast<double>(high) - static_cast<double>(low);
  return static_cast<float>(static_cast<double>(low) + width * unit_from(random_bits(key, counter)));
}

}  // namespace troupe::kernels
