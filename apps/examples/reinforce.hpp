// The two sides of reinforcement learning: observers play in their own environments, and ask for every action; an agent
// on a server has the policy, and learns from the rewards of its actions.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <numeric>
#include <string>
#include <troupe/troupe.hpp>
#include <utility>
#include <vector>

#include "cart_pole.hpp"
#include "policy_gradient.hpp"

namespace reinforce {

/// The mean reward of the last 100 episodes, 0 before there are 100; and the steps of all environments so far.
using progress = std::pair<double, std::int64_t>;

/// Chooses actions for all observers at once: it answers when each of them has called, and handles their calls in rank
/// order. So a run depends only on its seed. An observer's call carries the rewards of its previous actions.
class agent final : public troupe::remote_object {
 public:
  struct options {
    std::int64_t seed = 0;
    std::size_t observers = 0;
    std::size_t environments = 0;  ///< per observer
    double lr = 0.02;

    static troupe::nn::option_fields<options> fields() {
      return troupe::nn::option_fields<options>()
          .integer("seed", &options::seed, true)
          .whole("observers", &options::observers, 1)
          .whole("environments", &options::environments, 1)
          .real("lr", &options::lr);
    }
  };

  explicit agent(const options& chosen)
      : seed_(chosen.seed),
        environments_(chosen.environments),
        calls_(chosen.observers),
        policy_(seed_),
        optimizer_(chosen.lr) {}

  /// Returns an action, 0 or 1, for each of the observer's running environments, given their states [n, features].
  troupe::task<troupe::tensor> act(std::uint32_t rank, const std::vector<double>& rewards,
                                   const std::vector<std::int64_t>& running, const troupe::tensor& states) {
    if (running.empty() || states.type() != troupe::dtype::f32 ||
        states.shape() != troupe::shape(running.size(), policy::features))
      refuse(rank, "one environment or more, and a state [4] of float32 of each");
    for (const std::int64_t environment : running)
      if (!(environment >= 0 && std::cmp_less(environment, environments_)))
        refuse(rank, "environments from 0 to " + std::to_string(environments_ - 1));
    co_await arrival(rank, rewards, running, states);
    co_return calls_[rank].actions;
  }

  /// All episodes of the observer have ended. Answers when the episodes of all observers have ended and the policy is
  /// updated.
  troupe::task<progress> end_iteration(std::uint32_t rank, const std::vector<double>& rewards) {
    co_await arrival(rank, rewards, {}, {});
    co_return progress(mean_of_last(), steps_);
  }

  troupe::named_tensors state_dict() const override {
    return {{"weights", troupe::tensor::of<float>(policy::size, policy_.weights())}};
  }
  void load_state_dict(const troupe::named_tensors& state) override {
    if (state.size() != 1 || state[0].second.shape() != troupe::shape(policy::size))
      throw troupe::error(troupe::error_kind::input,
                          "the agent's state is one tensor [" + std::to_string(policy::size) + "] of weights");
    std::ranges::copy(state[0].second.as<float>(), policy_.weights().begin());
  }

  static void describe(troupe::methods<agent>& m) {
    m.add("act", &agent::act);
    m.add("end_iteration", &agent::end_iteration);
  }

 private:
  static constexpr double discount = 0.99;
  static constexpr std::size_t episodes_of_mean = 100;

  /// An observer's last call.
  struct call {
    bool waits = false;
    std::vector<double> rewards = {};
    std::vector<std::int64_t> running = {};
    troupe::tensor states = {};
    troupe::tensor actions = {};
    troupe::promise<> answered = {};
  };

  [[noreturn]] static void refuse(std::uint32_t rank, const std::string& wanted) {
    throw troupe::error(troupe::error_kind::input, "observer " + std::to_string(rank) + ": the agent takes " + wanted);
  }

  /// Returns a future that is ready when the call is answered.
  troupe::future<> arrival(std::uint32_t rank, const std::vector<double>& rewards,
                           const std::vector<std::int64_t>& running, const troupe::tensor& states) {
    if (rank >= calls_.size()) refuse(rank, "observers from 0 to " + std::to_string(calls_.size() - 1));
    call& mine = calls_[rank];
    if (mine.waits) refuse(rank, "one call at a time");
    if (rewards.size() != mine.running.size())
      refuse(rank, "as many rewards as it has given actions, " + std::to_string(mine.running.size()));
    mine = {true, rewards, running, states, {}, {}};
    auto answered = mine.answered.get_future();
    if (++here_ == calls_.size()) decide();
    return answered;
  }

  void decide() {
    played_step step;
    for (std::size_t rank = 0; rank < calls_.size(); ++rank) {
      call& one = calls_[rank];
      if (!played_.empty()) played_.back().add_rewards(one.rewards);
      one.rewards.clear();
      if (!one.running.empty()) choose(rank * environments_, one, step);
    }
    if (step.environments.empty()) return learn();
    steps_ += step.environments.size();
    played_.push_back(std::move(step));
    for (call& one : calls_)
      if (!one.running.empty()) answer(one);
  }

  /// `first`: the index of the observer's first environment among all.
  void choose(std::size_t first, call& asked, played_step& step) {
    asked.actions = troupe::tensor({asked.running.size()}, troupe::dtype::i64);
    const auto states = asked.states.as<float>();
    const auto actions = asked.actions.as<std::int64_t>();
    step.states.insert(step.states.end(), states.begin(), states.end());
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const std::size_t environment = first + asked.running[i];
      const float probability = policy_.probability(&states[i * policy::features]);
      // Indices below `features` were used for the episode's first state.
      const double draw = uniform(seed_, environment, iteration_, policy::features + played_.size());
      actions[i] = draw < probability ? 1 : 0;
      step.environments.push_back(environment);
      step.probabilities.push_back(probability);
      step.actions.push_back(draw < probability);
    }
  }

  void learn() {
    const std::size_t environments = environments_ * calls_.size();
    for (const double reward : episode_rewards(played_, environments)) last_.push_back(reward);
    while (last_.size() > episodes_of_mean) last_.pop_front();
    optimizer_.step(policy_.weights(), loss_gradient(policy_, played_, environments, discount));
    played_.clear();
    ++iteration_;
    for (call& one : calls_) answer(one);
  }

  void answer(call& one) {
    --here_;
    one.waits = false;
    one.answered.set();
  }

  double mean_of_last() const {
    if (last_.size() < episodes_of_mean) return 0;
    return std::accumulate(last_.begin(), last_.end(), 0.0) / episodes_of_mean;
  }

  std::uint64_t seed_;
  std::size_t environments_;  // per observer
  std::vector<call> calls_;   // by rank
  std::size_t here_ = 0;      // calls waiting for their answer
  policy policy_;
  adam_steps optimizer_;
  std::vector<played_step> played_;  // in this iteration
  std::deque<double> last_;          // rewards of the last episodes
  std::uint64_t iteration_ = 0;
  std::int64_t steps_ = 0;
};
inline const troupe::registered<agent> agents("agent");

/// An observer's iteration: it plays an episode in each of its environments. Returns the progress when the episodes of
/// all observers have ended.
inline troupe::task<progress> play_episodes(troupe::trainer me, troupe::remote_module<agent> receiver,
                                            std::size_t environments, std::uint64_t iteration) {
  std::vector<cart_pole> all;
  for (std::size_t i = 0; i < environments; ++i) all.emplace_back(me.seed(), me.rank() * environments + i, iteration);
  std::vector<std::int64_t> running(environments);
  std::iota(running.begin(), running.end(), 0);
  std::vector<double> rewards;
  while (!running.empty()) {
    troupe::tensor states(troupe::shape(running.size(), cart_pole::features));
    for (std::size_t i = 0; i < running.size(); ++i)
      std::ranges::copy(all[running[i]].now(), &states.as<float>()[i * cart_pole::features]);
    const troupe::tensor actions = co_await receiver.call(&agent::act, me.rank(), rewards, running, states);
    rewards.clear();
    for (std::size_t i = 0; i < running.size(); ++i)
      rewards.push_back(all[running[i]].step(actions.as<std::int64_t>()[i] == 1));
    std::erase_if(running, [&all](std::int64_t one) { return all[one].has_ended(); });
  }
  co_return co_await receiver.call(&agent::end_iteration, me.rank(), rewards);
}

}  // namespace reinforce
