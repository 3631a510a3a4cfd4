// The executor of a pipeline stage alone: stages are objects, and the test delivers their messages in an order drawn
// from a seed. Orders, windows and versions of weights are compared with closed forms.

#include "model/pipeline_executor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/random.hpp"

namespace troupe::model::pipeline_executor_test {
namespace {

using executor = pipeline_executor<int>;
using enum pipeline_schedule;

/// The order of a stage, such as "F0 F1 B0 B1": forward passes fill the window, then one backward follows each.
std::string order_of(std::uint32_t window, std::uint32_t count) {
  std::string order;
  for (std::uint32_t i = 0; i < std::min(window, count); ++i) order += fmt::format("F{} ", i);
  for (std::uint32_t i = 0; i < count; ++i) {
    order += fmt::format("B{} ", i);
    if (window + i < count) order += fmt::format("F{} ", window + i);
  }
  return order;
}

std::uint32_t window_of(pipeline_schedule schedule, std::uint32_t stage, std::uint32_t stages, std::uint32_t count) {
  return schedule == gpipe ? count : stages - stage;
}

/// The stages of a pipeline. The messages of a stage arrive in order, at times drawn from the seed.
class staged {
 public:
  struct stage {
    explicit stage(const stage_place& at) : order(at) {}

    executor order;
    std::deque<std::uint32_t> inputs;  ///< numbers of the inputs sent but not yet used
    std::deque<std::uint32_t> grads;
    std::uint32_t taken = 0;
    std::string passed;
    std::vector<std::uint32_t> updates;  ///< for each batch passed back, the updates that its weights had
    std::uint32_t copies = 0;
  };

  /// Passes a batch of `count` micro-batches, or a stream of `count` batches, through all stages.
  staged(pipeline_schedule schedule, std::uint32_t stages, std::uint32_t count, std::uint64_t seed) : count_(count) {
    for (std::uint32_t s = 0; s < stages; ++s) all_.emplace_back(stage_place{s, stages, schedule});
    for (stage& one : all_) schedule == pipedream ? one.order.begin_stream() : one.order.begin(first_step, count);
    for (std::uint32_t i = 0; i < count; ++i) all_.front().inputs.push_back(i);
    random_sequence random(mix(seed));
    std::vector<std::size_t> able(stages);
    while (!able.empty()) {
      able.clear();
      for (std::size_t s = 0; s < stages; ++s)
        if (!events_of(s).empty()) able.push_back(s);
      if (!able.empty()) act(able[random.below(able.size())], random);
    }
  }

  const std::vector<stage>& all() const { return all_; }

 private:
  static constexpr std::uint64_t first_step = 7;
  enum class event : std::uint8_t { input, grad, update, pass };

  std::vector<event> events_of(std::size_t s) const {
    const stage& one = all_[s];
    std::vector<event> possible;
    if (!one.inputs.empty()) possible.push_back(event::input);
    if (!one.grads.empty()) possible.push_back(event::grad);
    if (one.order.is_updating()) possible.push_back(event::update);
    if (one.order.can_pass()) possible.push_back(event::pass);
    return possible;
  }

  void act(std::size_t s, random_sequence& random) {
    const std::vector<event> possible = events_of(s);
    stage& one = all_[s];
    switch (possible[random.below(possible.size())]) {
      case event::input:
        take_input(one);
        break;
      case event::grad: {
        const auto found =
            one.order.awaiting_gradient(step_of(one, one.grads.front()), number_of(one, one.grads.front()));
        ASSERT_TRUE(found) << found.error().message;
        one.order.take_gradient(**found);
        one.grads.pop_front();
        break;
      }
      case event::update:
        one.order.update();
        break;
      case event::pass:
        pass(s);
        break;
    }
  }

  void take_input(stage& one) {
    const std::uint32_t which = one.inputs.front();
    one.inputs.pop_front();
    const auto found =
        one.order.streams() ? one.order.add(step_of(one, which)) : one.order.awaiting_input(first_step, which);
    ASSERT_TRUE(found) << found.error().message;
    one.order.take_input(**found);
    if (++one.taken == count_ && one.order.streams()) one.order.end_stream();
  }

  void pass(std::size_t s) {
    stage& one = all_[s];
    executor::entry& next = one.order.begin_pass();
    const std::uint32_t which = one.order.streams() ? static_cast<std::uint32_t>(next.step - first_step) : next.number;
    const bool is_forward = next.state == pass_state::forward;
    one.passed += fmt::format("{}{} ", is_forward ? 'F' : 'B', which);
    if (is_forward) {
      one.order.keep_weights(next, [&] {
        ++one.copies;
        return std::make_shared<const float>(static_cast<float>(one.order.updates()));
      });
      if (s + 1 < all_.size()) all_[s + 1].inputs.push_back(which);
    } else {
      // In a stream the weights are the kept copy, or the newest ones.
      if (one.order.streams()) {
        EXPECT_EQ(next.updates, next.weights ? static_cast<std::uint32_t>(*next.weights) : one.order.updates());
      }
      one.updates.push_back(next.updates);
      if (s > 0) all_[s - 1].grads.push_back(which);
    }
    one.order.end_pass(next);
  }

  static std::uint64_t step_of(const stage& one, std::uint32_t which) {
    return one.order.streams() ? first_step + which : first_step;
  }
  static std::uint32_t number_of(const stage& one, std::uint32_t which) { return one.order.streams() ? 0 : which; }

  std::uint32_t count_;
  std::vector<stage> all_;
};

TEST(PipelineExecutor, PassesMicroBatchesInTheOrdersOfTheTable) {
  const auto orders = [](pipeline_schedule schedule, std::uint32_t stages, std::uint32_t count) {
    const staged run(schedule, stages, count, 1);
    std::vector<std::string> all;
    for (const auto& one : run.all()) all.push_back(one.passed);
    return all;
  };
  EXPECT_EQ(orders(one_f_one_b, 3, 4), (std::vector<std::string>{"F0 F1 F2 B0 F3 B1 B2 B3 ", "F0 F1 B0 F2 B1 F3 B2 B3 ",
                                                                 "F0 B0 F1 B1 F2 B2 F3 B3 "}));
  EXPECT_EQ(orders(gpipe, 2, 3), std::vector<std::string>(2, "F0 F1 F2 B0 B1 B2 "));
  EXPECT_EQ(orders(pipedream, 2, 4),
            (std::vector<std::string>{"F0 F1 B0 F2 B1 F3 B2 B3 ", "F0 B0 F1 B1 F2 B2 F3 B3 "}));
}

TEST(PipelineExecutor, HasTheSameOrderAndWindowWheneverWhatComes) {
  for (const auto schedule : {gpipe, one_f_one_b, pipedream})
    for (std::uint32_t stages = 1; stages <= 5; ++stages)
      for (std::uint32_t count = 1; count <= 9; ++count)
        for (std::uint64_t seed = 0; seed < 4; ++seed) {
          const staged run(schedule, stages, count, seed);
          for (std::uint32_t s = 0; s < stages; ++s) {
            const auto& one = run.all()[s];
            const std::uint32_t window = window_of(schedule, s, stages, count);
            EXPECT_EQ(one.passed, order_of(window, count)) << stages << " stages, stage " << s << ", seed " << seed;
            EXPECT_TRUE(one.order.is_resting());
            EXPECT_EQ(one.order.in_flight(), 0U);
            EXPECT_EQ(one.order.max_in_flight(), std::min(window, count));
            EXPECT_EQ(in_flight_max(one.order.place(), count), std::min(window, count));
          }
        }
}

/// When a batch arrives, stage s of P has applied the gradients of all but the last P - s - 1 batches.
TEST(PipelineExecutor, PassesABatchBackWithTheWeightsThatItCameForwardWith) {
  for (std::uint32_t stages = 1; stages <= 4; ++stages)
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      constexpr std::uint32_t count = 10;
      const staged run(pipedream, stages, count, seed);
      for (std::uint32_t s = 0; s < stages; ++s) {
        const std::uint32_t behind = stages - s - 1;
        std::vector<std::uint32_t> expected(count);
        for (std::uint32_t b = 0; b < count; ++b) expected[b] = b < behind ? 0 : b - behind;
        EXPECT_EQ(run.all()[s].updates, expected) << stages << " stages, stage " << s;
        EXPECT_EQ(run.all()[s].copies, behind == 0 ? 0 : count - behind) << "one for each version that is used";
      }
    }
}

TEST(PipelineExecutor, CopiesNoWeightsWhereNoneChange) {
  const staged run(one_f_one_b, 3, 5, 2);
  for (const auto& one : run.all()) EXPECT_EQ(one.copies, 0U);
}

TEST(PipelineExecutor, AddsTheLossOfABatchInTheOrderOfItsMicroBatches) {
  executor order({0, 1, gpipe});
  for (const std::vector<double>& losses : {std::vector{0.1, 0.2, 0.3}, std::vector{4.0}}) {
    order.begin(1, static_cast<std::uint32_t>(losses.size()));
    for (std::uint32_t i = 0; i < losses.size(); ++i) order.take_input(**order.awaiting_input(1, i));
    while (order.can_pass()) {
      auto& one = order.begin_pass();
      one.loss = losses[one.number];
      order.end_pass(one);
    }
    double sum = 0;
    for (const double one : losses) sum += one;
    EXPECT_EQ(order.loss(), sum);
  }
}

// -- unexpected arrivals ---------------------------------------------------------------------------------------------

std::string error_of(const result<executor::entry*>& found) { return found ? "" : found.error().message; }

TEST(PipelineExecutor, RefusesWhatItDoesNotAwait) {
  executor order({0, 2, one_f_one_b});
  EXPECT_EQ(error_of(order.awaiting_input(1, 0)), "the input of micro-batch 0 of step 1, which is not under way");
  order.begin(1, 2);
  EXPECT_NE(error_of(order.awaiting_input(2, 0)), "") << "of another step";
  EXPECT_NE(error_of(order.awaiting_input(1, 2)), "") << "beyond the batch";
  EXPECT_EQ(error_of(order.awaiting_gradient(1, 0)), "the gradient of micro-batch 0 of step 1, which is not under way");
  order.take_input(**order.awaiting_input(1, 0));
  EXPECT_NE(error_of(order.awaiting_input(1, 0)), "") << "twice";
  EXPECT_NE(error_of(order.awaiting_gradient(1, 0)), "") << "before it has been passed forward";
  auto& first = order.begin_pass();
  EXPECT_NE(error_of(order.awaiting_gradient(1, 0)), "") << "while it is passed forward";
  order.end_pass(first);
  order.take_gradient(**order.awaiting_gradient(1, 0));
  EXPECT_NE(error_of(order.awaiting_gradient(1, 0)), "") << "twice";
  EXPECT_FALSE(order.can_pass()) << "the second one comes before the first goes back";
  order.take_input(**order.awaiting_input(1, 1));
  order.end_pass(order.begin_pass());
  order.end_pass(order.begin_pass());
  EXPECT_NE(error_of(order.awaiting_gradient(1, 0)), "") << "when it has been passed back";
}

TEST(PipelineExecutor, RefusesABatchOutOfOrder) {
  executor order({0, 2, pipedream});
  order.begin_stream();
  EXPECT_TRUE(order.add(5));
  EXPECT_EQ(error_of(order.add(5)), "a batch of step 5 out of order");
  EXPECT_EQ(error_of(order.add(4)), "a batch of step 4 out of order");
  EXPECT_TRUE(order.add(6));
}

TEST(PipelineExecutor, PassesABatchWithoutSamplesBackWithoutAGradient) {
  executor order({0, 2, pipedream});
  order.begin_stream();
  order.take_input(**order.add(1, false));
  order.end_stream();
  order.end_pass(order.begin_pass());
  EXPECT_TRUE(order.can_pass());
  order.end_pass(order.begin_pass());
  EXPECT_TRUE(order.is_updating());
  EXPECT_FALSE(order.is_resting());
  order.update();
  EXPECT_TRUE(order.is_resting());
}

TEST(PipelineExecutor, RestsWhenAStreamEndsWithoutABatch) {
  executor order({1, 2, pipedream});
  order.begin_stream();
  EXPECT_FALSE(order.can_pass());
  order.end_stream();
  EXPECT_TRUE(order.is_resting());
}

// -- waits -----------------------------------------------------------------------------------------------

std::string lack_of(const executor& order) {
  const auto [what, step] = order.lacks(3);
  return fmt::format("{} of step {}", what, step);
}

TEST(PipelineExecutor, SaysWhatTheNextMicroBatchLacks) {
  executor order({0, 2, one_f_one_b});
  order.begin(3, 2);
  EXPECT_EQ(lack_of(order), "micro-batch 0 of step 3");
  for (std::uint32_t i = 0; i < 2; ++i) {
    order.take_input(**order.awaiting_input(3, i));
    order.end_pass(order.begin_pass());
  }
  EXPECT_EQ(lack_of(order), "the gradient of micro-batch 0 of step 3");
}

TEST(PipelineExecutor, SaysWhichBatchItLacksWhereStepsOverlap) {
  executor order({0, 2, pipedream});
  order.begin_stream();
  EXPECT_EQ(lack_of(order), "the batch of step 3");
  for (std::uint64_t step = 4; step < 6; ++step) {
    order.take_input(**order.add(step));
    order.end_pass(order.begin_pass());
    EXPECT_EQ(lack_of(order), step == 4 ? "the batch of step 5" : "the gradient of the batch of step 4");
  }
}

TEST(PipelineExecutor, HasNoTransitionsButThoseOfItsTable) {
  using enum executor_phase;
  const std::set<std::pair<executor_phase, executor_phase>> legal = {
      {resting, passing}, {passing, resting}, {passing, updating}, {updating, passing}, {updating, resting}};
  for (const auto from : {resting, passing, updating})
    for (const auto to : {resting, passing, updating})
      EXPECT_EQ(may_follow(from, to), legal.contains({from, to})) << int(from) << " to " << int(to);
  using enum pass_state;
  const std::vector<pass_state> states = {awaited, ready, forward, away, returned, back};
  for (std::size_t from = 0; from < states.size(); ++from)
    for (std::size_t to = 0; to < states.size(); ++to)
      EXPECT_EQ(may_follow(states[from], states[to]), to == from + 1) << from << " to " << to;
}

}  // namespace
}  // namespace troupe::model::pipeline_executor_test
