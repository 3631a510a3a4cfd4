// The classic control problem: a cart on a rail carries a pole; pushes to the left and right have to keep it upright.
// Physics and limits are those of Gym's CartPole-v1, in double precision.

#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace reinforce {

/// Returns a number in [0, 1) that depends only on these four numbers.
inline double uniform(std::uint64_t seed, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t x = seed;
  for (const std::uint64_t more : {a, b, c}) {
    x += more + 0x9E3779B97F4A7C15U;  // followed by the finalizer of SplitMix64
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    x ^= x >> 31U;
  }
  return (x >> 11U) * 0x1p-53;
}

/// An episode: until the pole or the cart exceeds its limit, or for 500 steps; each step gives a reward of 1.
class cart_pole {
 public:
  static constexpr std::size_t features = 4;
  static constexpr std::size_t steps_max = 500;
  /// The cart's position (m) and velocity, the pole's angle from upright (rad) and angular velocity.
  using state = std::array<double, features>;

  /// Starts near the middle: each number is uniform in +-0.05.
  cart_pole(std::uint64_t seed, std::uint64_t environment, std::uint64_t episode) : now_() {
    for (std::size_t i = 0; i < features; ++i) now_[i] = 0.1 * uniform(seed, environment, episode, i) - 0.05;
  }
  explicit cart_pole(const state& begin) : now_(begin) {}

  /// Pushes for 0.02 s: one step by Euler's method. Returns the reward.
  double step(bool to_the_right) {
    const auto [x, speed, angle, turning] = now_;
    const double sine = std::sin(angle), cosine = std::cos(angle);
    const double push = ((to_the_right ? force : -force) + pole_mass * half_length * turning * turning * sine) / mass;
    const double turn =
        (gravity * sine - cosine * push) / (half_length * (4.0 / 3.0 - pole_mass * cosine * cosine / mass));
    const double pull = push - pole_mass * half_length * turn * cosine / mass;
    now_ = {x + tau * speed, speed + tau * pull, angle + tau * turning, turning + tau * turn};
    ++steps_;
    return 1;
  }
  bool has_ended() const { return std::abs(now_[0]) > 2.4 || std::abs(now_[2]) > angle_max || steps_ >= steps_max; }
  const state& now() const { return now_; }

 private:
  static constexpr double gravity = 9.8, pole_mass = 0.1, mass = 1.0 + pole_mass, half_length = 0.5, force = 10;
  static constexpr double tau = 0.02, angle_max = 12 * 3.14159265358979323846 / 180;

  state now_;
  std::size_t steps_ = 0;
};

}  // namespace reinforce
