// The reinforcement learning example: steps of the environments alone, of environments and policy without calls, and of
// observers that call a learning agent. Measures CPU seconds of this process, so that other processes matter little.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "apps/examples/cart_pole.hpp"
#include "apps/examples/policy_gradient.hpp"
#include "apps/examples/reinforce.hpp"
#include "troupe/troupe.hpp"

using namespace troupe;

namespace {

/// CPU seconds of this process, all threads.
double core_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

constexpr int rounds = 5;

void print(const std::string& what, std::vector<double> per_second) {
  std::ranges::sort(per_second);
  std::printf("%s: %.2f million steps a second and core, the median of %zu (%.2f to %.2f)\n", what.c_str(),
              per_second[per_second.size() / 2] / 1e6, per_second.size(), per_second.front() / 1e6,
              per_second.back() / 1e6);
}

/// Steps per second and core of 64 environments, each restarted when its episode ends; `act(state)` chooses the push.
template <class Act>
double play_alone(Act act) {
  constexpr std::uint64_t environments = 64, steps = 50'000;
  std::vector<reinforce::cart_pole> all;
  for (std::uint64_t i = 0; i < environments; ++i) all.emplace_back(1, i, 0);
  const double begin = core_seconds();
  for (std::uint64_t step = 1; step <= steps; ++step)
    for (std::uint64_t i = 0; i < environments; ++i) {
      all[i].step(act(all[i].now()));
      if (all[i].has_ended()) all[i] = reinforce::cart_pole(1, i, step);
    }
  return environments * steps / (core_seconds() - begin);
}

/// Prints the steps per second and core of all observers during `iterations` iterations, while their agent learns.
task<> play_with_agent(trainer me, remote_module<reinforce::agent> receiver, std::size_t environments,
                       std::uint64_t iterations) {
  std::vector<double> per_second;
  std::int64_t before = 0;
  for (int round = 0; round < rounds; ++round) {
    const double begin = core_seconds();
    reinforce::progress now;
    for (std::uint64_t i = 0; i < iterations; ++i)
      now = co_await reinforce::play_episodes(me, receiver, environments, round * iterations + i);
    per_second.push_back(static_cast<double>(now.second - before) / (core_seconds() - begin));
    before = now.second;
  }
  if (me.rank() == 0)
    print(std::to_string(me.trainers()) + " observers of " + std::to_string(environments) +
              " environments, with an agent that learns",
          per_second);
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t observers = 2, environments = 32, iterations = 30;
  cluster cluster(
      argc, argv,
      {option("observers", observers, "who plays"), option("environments", environments, "of each observer"),
       option("iterations", iterations, "of a round; 0: the environments alone")});
  if (iterations == 0) {
    std::vector<double> alone, with_policy;
    const reinforce::policy policy(1);
    for (int round = 0; round < rounds; ++round) {
      alone.push_back(play_alone([](const auto& state) { return state[2] + state[3] > 0; }));
      with_policy.push_back(play_alone([&policy](const auto& state) {
        std::array<float, reinforce::policy::features> x;
        std::ranges::transform(state, x.begin(), [](double one) { return static_cast<float>(one); });
        return policy.probability(x.data()) > 0.5F;
      }));
    }
    print("environments alone", alone);
    print("environments, and the policy without calls", with_policy);
    return 0;
  }
  const auto receiver = cluster.server(0).make<reinforce::agent>(
      {.seed = static_cast<std::int64_t>(cluster.seed()), .observers = observers, .environments = environments});
  cluster.run(static_cast<std::uint32_t>(observers), play_with_agent, receiver, environments, iterations);
}
