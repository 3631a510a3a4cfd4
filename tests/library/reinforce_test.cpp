// The example of reinforcement learning: its environment and its gradient compared with a second implementation
// (tests/reference_runs/reinforce), its agent's answers in any order of calls, and its runs.

#include "apps/examples/reinforce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "tests/library/example_output.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/run_trainers.hpp"
#include "troupe/troupe.hpp"

namespace troupe::reinforce_test {
namespace {

using reinforce::cart_pole;
using reinforce::played_step;
using reinforce::policy;
using test::output_of;

std::map<std::string, tensor> reference() {
  std::map<std::string, tensor> all;
  for (auto& [name, numbers] : load_safetensors(TROUPE_REFERENCE_RUNS "/reinforce/reinforce.safetensors"))
    all[name] = numbers;
  return all;
}

cart_pole::state row(const tensor& states, std::size_t step) {
  cart_pole::state one;
  std::copy_n(&states.as<double>()[step * cart_pole::features], cart_pole::features, one.begin());
  return one;
}

void expect_near(const cart_pole::state& is, const cart_pole::state& wanted, double tolerance, std::size_t step) {
  for (std::size_t i = 0; i < is.size(); ++i) EXPECT_NEAR(is[i], wanted[i], tolerance) << "step " << step << ", " << i;
}

TEST(Reinforce, EachStepOfTheCartIsThatOfTheSolvedEquationsOfMotion) {
  auto from = reference();
  std::size_t steps = 0;
  for (int episode = 0; episode < 5; ++episode) {
    const std::string name = "episode." + std::to_string(episode);
    const tensor states = from.at(name + ".states"), pushes = from.at(name + ".pushes");
    for (std::size_t t = 0; t < pushes.count(); ++t, ++steps) {
      cart_pole one(row(states, t));
      EXPECT_FALSE(one.has_ended()) << name << ", step " << t;
      EXPECT_EQ(one.step(pushes.as<std::int64_t>()[t] == 1), 1);
      expect_near(one.now(), row(states, t + 1), 1e-13, t);
    }
  }
  EXPECT_EQ(steps, 713U);
}

TEST(Reinforce, EpisodesEndWhereTheReferenceDoes) {
  auto from = reference();
  for (const int episode : {0, 1, 2, 4}) {
    const std::string name = "episode." + std::to_string(episode);
    const tensor states = from.at(name + ".states"), pushes = from.at(name + ".pushes");
    cart_pole one(row(states, 0));
    std::size_t t = 0;
    for (; t < pushes.count() && !one.has_ended(); ++t) {
      one.step(pushes.as<std::int64_t>()[t] == 1);
      // A difference in the last bit grows as the pole falls, by 2e5 in 160 steps.
      expect_near(one.now(), row(states, t + 1), 1e-9, t);
    }
    EXPECT_EQ(t, pushes.count()) << name;
    EXPECT_TRUE(one.has_ended()) << name;
  }
}

TEST(Reinforce, AnEpisodeHasAtMost500Steps) {
  cart_pole one(row(reference().at("episode.3.states"), 0));
  int steps = 0;
  for (; !one.has_ended(); ++steps) {
    const auto [x, speed, angle, turning] = one.now();
    one.step(0.3 * x + 0.5 * speed + 10 * angle + 2 * turning > 0);
  }
  EXPECT_EQ(steps, 500);
  EXPECT_LT(std::abs(one.now()[2]), 0.1);
}

TEST(Reinforce, EpisodesBeginUniformlyNearTheMiddleEachElsewhere) {
  constexpr int episodes = 2'500;
  double sum = 0, squares = 0;
  for (std::uint64_t environment = 0; environment < 50; ++environment)
    for (std::uint64_t episode = 0; episode < episodes / 50; ++episode) {
      const cart_pole begun(1, environment, episode);
      for (const double x : begun.now()) {
        EXPECT_LE(std::abs(x), 0.05);
        sum += x;
        squares += x * x;
      }
    }
  constexpr double numbers = 4 * episodes;
  EXPECT_NEAR(sum / numbers, 0, 0.001);  // 3.5 of its standard deviations
  EXPECT_NEAR(squares / numbers, 0.1 * 0.1 / 12, 0.00003);
  EXPECT_NE(cart_pole(1, 2, 3).now(), cart_pole(1, 3, 2).now());
  EXPECT_NE(cart_pole(1, 2, 3).now(), cart_pole(2, 2, 3).now());
}

/// Environment e plays `lengths[e]` steps with rewards of 1.
std::vector<played_step> played_for(const std::vector<std::size_t>& lengths) {
  std::vector<played_step> played(std::ranges::max(lengths));
  for (std::size_t t = 0; t < played.size(); ++t)
    for (std::size_t e = 0; e < lengths.size(); ++e)
      if (t < lengths[e]) {
        played[t].environments.push_back(e);
        played[t].rewards.push_back(1);
      }
  return played;
}

TEST(Reinforce, AdvantagesOfRewardsOf1AreThoseOfTheGeometricSeries) {
  const std::vector<std::size_t> lengths = {40, 7, 500, 23};
  const double discount = 0.97;
  const auto played = played_for(lengths);
  std::vector<std::vector<double>> wanted(played.size());
  double squares = 0;
  for (std::size_t t = 0; t < played.size(); ++t) {
    double mean = 0;
    for (const std::size_t e : played[t].environments) {
      wanted[t].push_back((1 - std::pow(discount, lengths[e] - t)) / (1 - discount));
      mean += wanted[t].back() / static_cast<double>(played[t].environments.size());
    }
    for (double& one : wanted[t]) {
      one -= mean;
      squares += one * one;
    }
  }
  const double deviation = std::sqrt(squares / (40 + 7 + 500 + 23));
  const auto advantages = reinforce::advantages(played, lengths.size(), discount);
  for (std::size_t t = 0; t < played.size(); ++t)
    for (std::size_t i = 0; i < wanted[t].size(); ++i) EXPECT_NEAR(advantages[t][i], wanted[t][i] / deviation, 1e-8);
  const auto rewards = reinforce::episode_rewards(played, lengths.size());
  for (std::size_t e = 0; e < lengths.size(); ++e) EXPECT_EQ(rewards[e], static_cast<double>(lengths[e]));
}

TEST(Reinforce, EpisodesOfOneLengthChangeNothing) {
  auto played = played_for({20, 20, 20});
  for (played_step& step : played) {
    step.states.assign(3 * policy::features, 0.01F);
    step.probabilities.assign(3, 0.3F);
    step.actions.assign(3, true);
  }
  for (const float one : reinforce::loss_gradient(policy(1), played, 3, 0.99)) EXPECT_NEAR(one, 0, 1e-6);
}

TEST(Reinforce, NoStepsAtAllChangeNothing) {
  for (const float one : reinforce::loss_gradient(policy(1), {}, 3, 0.99)) EXPECT_EQ(one, 0);
}

TEST(Reinforce, ProbabilitiesAdvantagesAndGradientAreThoseOfPyTorch) {
  auto from = reference();
  policy learner(1);
  std::ranges::copy(from.at("gradient.weights").as<float>(), learner.weights().begin());
  const tensor steps = from.at("gradient.step"), environments = from.at("gradient.environment");
  const tensor states = from.at("gradient.states"), actions = from.at("gradient.actions");
  const tensor rewards = from.at("gradient.rewards"), probabilities = from.at("gradient.probabilities");
  std::vector<played_step> played(7);
  for (std::size_t i = 0; i < steps.count(); ++i) {
    played_step& to = played[static_cast<std::size_t>(steps.as<std::int64_t>()[i])];
    const float* const state = &states.as<float>()[i * policy::features];
    to.environments.push_back(static_cast<std::size_t>(environments.as<std::int64_t>()[i]));
    to.states.insert(to.states.end(), state, state + policy::features);
    to.probabilities.push_back(learner.probability(state));
    to.actions.push_back(actions.as<std::int64_t>()[i] == 1);
    to.rewards.push_back(rewards.as<double>()[i]);
    EXPECT_NEAR(to.probabilities.back(), probabilities.as<double>()[i], 1e-6);
  }
  std::vector<double> advantages;
  for (const auto& step : reinforce::advantages(played, 3, 0.9))
    advantages.insert(advantages.end(), step.begin(), step.end());
  const tensor wanted = from.at("gradient.advantages"), expected = from.at("gradient.expected");
  ASSERT_EQ(advantages.size(), wanted.count());
  for (std::size_t i = 0; i < advantages.size(); ++i) EXPECT_NEAR(advantages[i], wanted.as<double>()[i], 1e-7);
  const policy::numbers gradient = reinforce::loss_gradient(learner, played, 3, 0.9);
  double largest = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    EXPECT_NEAR(gradient[i], expected.as<double>()[i], 1e-6) << i;
    largest = std::max(largest, std::abs(expected.as<double>()[i]));
  }
  EXPECT_GT(largest, 0.1);  // so 1e-6 is a tight tolerance
}

TEST(Reinforce, AdamsFirstStepsAreThoseOfItsFormula) {
  policy learner(1);
  const policy::numbers before = learner.weights();
  reinforce::adam_steps optimizer(0.1);
  policy::numbers gradient = {};
  gradient[3] = 2;
  optimizer.step(learner.weights(), gradient);
  EXPECT_NEAR(learner.weights()[3], before[3] - 0.1, 1e-6);  // the sign of the first gradient
  gradient[3] = -1;
  optimizer.step(learner.weights(), gradient);
  const double mean = (0.9 * 0.2 - 0.1) / (1 - 0.81), square = (0.999 * 0.004 + 0.001) / (1 - 0.998001);
  EXPECT_NEAR(learner.weights()[3], before[3] - 0.1 - 0.1 * mean / std::sqrt(square), 1e-6);
  EXPECT_EQ(learner.weights()[4], before[4]);
}

constexpr std::uint32_t observers = 3;
constexpr std::size_t environments = 5;

/// Plays two iterations for all observers, whose calls of step t arrive in the `t + shift`th permutation; then reads
/// the weights.
task<> play_in_turns(trainer, remote_module<reinforce::agent> receiver, std::size_t shift,
                     std::vector<float>* weights) {
  std::size_t t = shift;
  for (std::uint64_t iteration = 0; iteration < 2; ++iteration) {
    std::vector<cart_pole> all;
    for (std::size_t e = 0; e < observers * environments; ++e) all.emplace_back(1, e, iteration);
    std::array<std::vector<std::int64_t>, observers> running;
    std::array<std::vector<double>, observers> rewards;
    std::array<bool, observers> ended = {};
    for (auto& own : running)
      for (std::size_t e = 0; e < environments; ++e) own.push_back(static_cast<std::int64_t>(e));
    std::vector<future<reinforce::progress>> ends;
    for (; ends.size() < observers; ++t) {
      std::array<future<tensor>, observers> coming;
      std::array<std::uint32_t, observers> order = {0, 1, 2};
      for (std::size_t i = 0; i < t % 6; ++i) std::ranges::next_permutation(order);
      for (const std::uint32_t rank : order) {
        if (ended[rank]) continue;
        if (running[rank].empty()) {
          ends.push_back(receiver.call(&reinforce::agent::end_iteration, rank, rewards[rank]));
          ended[rank] = true;
          continue;
        }
        tensor states(shape(running[rank].size(), cart_pole::features));
        for (std::size_t i = 0; i < running[rank].size(); ++i)
          for (std::size_t k = 0; k < cart_pole::features; ++k)
            states.as<float>()[i * cart_pole::features + k] =
                static_cast<float>(all[rank * environments + running[rank][i]].now()[k]);
        coming[rank] = receiver.call(&reinforce::agent::act, rank, rewards[rank], running[rank], states);
      }
      for (std::uint32_t rank = 0; rank < observers; ++rank) {
        if (ended[rank]) continue;
        const tensor actions = co_await std::move(coming[rank]);
        rewards[rank].clear();
        for (std::size_t i = 0; i < running[rank].size(); ++i)
          rewards[rank].push_back(all[rank * environments + running[rank][i]].step(actions.as<std::int64_t>()[i] == 1));
        std::erase_if(running[rank], [&](std::int64_t e) { return all[rank * environments + e].has_ended(); });
      }
    }
    for (auto& one : ends) co_await std::move(one);
  }
  const auto state = co_await receiver.state_dict();
  const auto numbers = state[0].second.as<float>();
  weights->assign(numbers.begin(), numbers.end());
}

/// Runs `function(trainer, agent, more...)` on one trainer.
template <class Function, class... More>
void run_with_agent(Function function, More... more) {
  test::made_cluster cluster;
  const auto receiver =
      cluster.server(0).make<reinforce::agent>({.seed = 1, .observers = observers, .environments = environments});
  cluster.run(1, function, receiver, more...);
}

TEST(Reinforce, CallsInAnyOrderGiveTheSameWeights) {
  std::vector<float> first, other;
  run_with_agent(play_in_turns, std::size_t{0}, &first);
  const policy untrained(1);
  ASSERT_EQ(first.size(), policy::size);
  EXPECT_FALSE(std::ranges::equal(first, untrained.weights()));
  for (const std::size_t shift : {1, 4}) {
    run_with_agent(play_in_turns, shift, &other);
    EXPECT_EQ(first, other) << shift;
  }
}

task<> call_wrongly(trainer, remote_module<reinforce::agent> receiver, std::vector<std::string>* errors) {
  tensor one(shape(1, cart_pole::features)), wide(shape(1, 5)), of_double(shape(1, cart_pole::features), dtype::f64);
  for (const auto& numbers : {one, wide}) std::ranges::fill(numbers.as<float>(), 0.0F);
  std::ranges::fill(of_double.as<double>(), 0.0);
  std::vector<future<tensor>> calls;
  const std::vector<double> none, reward = {1};
  const std::vector<std::int64_t> first = {0}, fifth = {5}, negative = {-1};
  calls.push_back(receiver.call(&reinforce::agent::act, 3, none, first, one));
  calls.push_back(receiver.call(&reinforce::agent::act, 0, none, first, wide));
  calls.push_back(receiver.call(&reinforce::agent::act, 0, none, first, of_double));
  calls.push_back(receiver.call(&reinforce::agent::act, 0, none, fifth, one));
  calls.push_back(receiver.call(&reinforce::agent::act, 0, none, negative, one));
  calls.push_back(receiver.call(&reinforce::agent::act, 0, reward, first, one));
  const auto waits = receiver.call(&reinforce::agent::act, 0, none, first, one);
  calls.push_back(receiver.call(&reinforce::agent::act, 0, none, first, one));
  for (auto& call : calls) try {
      co_await std::move(call);
    } catch (const error& e) {
      errors->emplace_back(e.what());
    }
}

TEST(Reinforce, TheAgentRefusesCallsThatItCannotTake) {
  std::vector<std::string> errors;
  run_with_agent(call_wrongly, &errors);
  const std::string begin = "agent.act on server 0: observer ", takes = ": the agent takes ";
  EXPECT_EQ(errors, (std::vector<std::string>{
                        begin + "3" + takes + "observers from 0 to 2",
                        begin + "0" + takes + "one environment or more, and a state [4] of float32 of each",
                        begin + "0" + takes + "one environment or more, and a state [4] of float32 of each",
                        begin + "0" + takes + "environments from 0 to 4",
                        begin + "0" + takes + "environments from 0 to 4",
                        begin + "0" + takes + "as many rewards as it has given actions, 0",
                        begin + "0" + takes + "one call at a time",
                    }));
}

TEST(Reinforce, IsSolvedFromSeveralSeeds) {
  for (const char* seed : {"1", "2", "3"}) {
    const std::string output = output_of("reinforce", std::string("--seed ") + seed);
    const std::size_t at = output.find("solved after ");
    ASSERT_TRUE(at != std::string::npos && (at == 0 || output[at - 1] == '\n')) << output;
    long long steps = 0;
    double mean = 0;
    ASSERT_EQ(std::sscanf(output.c_str() + at, "solved after %lld steps: mean reward of the last 100 episodes %lf",
                          &steps, &mean),
              2)
        << output;
    EXPECT_GE(mean, 475);
    EXPECT_LE(mean, 500);
    EXPECT_LT(steps, 2'000'000) << "of " << output;
  }
}

TEST(Reinforce, ARunIsTheSameWhereverAndHoweverManyItsObserversAre) {
  const std::string output = output_of("reinforce");
  ASSERT_NE(output.find("\nsolved after "), std::string::npos) << output;
  EXPECT_EQ(output_of("reinforce", "--processes"), output);
  EXPECT_EQ(output_of("reinforce", "--threads 1"), output);
  EXPECT_EQ(output_of("reinforce", "--observers 1 --environments 64"), output);
  EXPECT_EQ(output_of("reinforce", "--observers 8 --environments 8 --threads 5"), output);
  EXPECT_NE(output_of("reinforce", "--seed 2"), output);
}

TEST(Reinforce, RefusesOptionsOutOfTheirLimits) {
  const std::string to_output = " 2>&1";
  EXPECT_EQ(output_of("reinforce", "--observers 0" + to_output),
            "example_reinforce: error: --observers 0: must be a whole number between 1 and 64\nstatus 512");
  EXPECT_EQ(output_of("reinforce", "--environments 1" + to_output),
            "example_reinforce: error: --environments 1: must be a whole number between 2 and 1024\nstatus 512");
  EXPECT_EQ(output_of("reinforce", "--iterations 1000001" + to_output),
            "example_reinforce: error: --iterations 1000001: must be a whole number between 1 and 1000000\nstatus 512");
}

TEST(Reinforce, SaysWhenItIsNotSolved) {
  const std::string output = output_of("reinforce", "--iterations 3");
  EXPECT_TRUE(output.starts_with("not solved after ")) << output;
}

}  // namespace
}  // namespace troupe::reinforce_test
