// Reinforcement learning by policy gradients (REINFORCE): observers keep poles upright on carts, each in many
// environments at once; an agent on a server chooses the actions and learns from all observers. The network and its
// gradient are in policy_gradient.hpp, the environment is in cart_pole.hpp.

#include "reinforce.hpp"

#include <cstdint>
#include <cstdio>
#include <string>
#include <troupe/troupe.hpp>

using namespace troupe;

constexpr double enough = 475;  // CartPole-v1 counts as solved from here

/// Plays until the mean reward of 100 successive episodes is `enough`, at most `iterations` iterations.
task<> play(trainer me, remote_module<reinforce::agent> agent, std::size_t environments, std::uint64_t iterations) {
  reinforce::progress now;
  for (std::uint64_t iteration = 1; iteration <= iterations && now.first < enough; ++iteration) {
    now = co_await reinforce::play_episodes(me, agent, environments, iteration);
    if (me.rank() == 0 && iteration % 10 == 0)
      std::printf("iteration %lu: mean reward of the last 100 episodes %.2f\n", iteration, now.first);
  }
  const auto [mean, steps] = now;
  if (me.rank() == 0)
    std::printf("%s after %ld steps: mean reward of the last 100 episodes %.2f\n",
                mean >= enough ? "solved" : "not solved", steps, mean);
}

int main(int argc, char** argv) {
  std::uint64_t observers = 2, environments = 32, iterations = 500;
  cluster cluster(
      argc, argv,
      {option("observers", observers, "who plays").within(1, 64),
       option("environments", environments, "of each observer").within(2, 1024),
       option("iterations", iterations, "at most, of an episode in each environment").within(1, 1'000'000)});
  const std::int64_t seed = cluster.seed();
  auto agent =
      cluster.server(0).make<reinforce::agent>({.seed = seed, .observers = observers, .environments = environments});
  const auto run = cluster.run(observers, play, agent, environments, iterations);
  std::printf("%s\n", run.weights_digest.c_str());
}
