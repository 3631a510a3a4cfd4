// A trainer with the last of two stages alone, among scripted actors: its phases, what it sends, and what it refuses.

#include "actors/trainer/pipeline_worker.hpp"

#include <fmt/format.h>

#include <deque>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/trainer/job_trainer.hpp"
#include "model/data.hpp"
#include "model/job.hpp"
#include "tests/actors/stage.hpp"

namespace troupe::actors::pipeline_worker_test {
namespace {

using lines = std::vector<std::string>;
constexpr std::uint64_t samples = 4;  ///< per batch, in two micro-batches
constexpr std::uint64_t features = 6;

class PipelineWorker : public stage {
 protected:
  /// Two replicas of two stages; this is the second stage (relu and a linear layer) of the first replica.
  void begin(const std::vector<model::setting>& further = {}) {
    std::vector<model::setting> settings = {{"data", "adult"}, {"hidden", "6"},   {"pipeline", "2"},  {"stages", "0,1"},
                                            {"steps", "9"},    {"trainers", "2"}, {"batch-size", "8"}};
    settings.insert(settings.end(), further.begin(), further.end());
    const auto parsed = model::parse_job(settings);
    ASSERT_TRUE(parsed) << parsed.error().message;
    follower_ = spawn(trainer, std::uint64_t{1}, 1U, 1U);
    run();  // it must have begun before it can be given its peers
    const auto leader = spawn([this]() -> caf::behavior {
      return {[this](msg::activation_gradient& grad) {
                log_.push_back(fmt::format("gradient {}.{}, {} x {}", grad.head.step, grad.micro_batch,
                                           grad.numbers.rows, grad.numbers.cols));
              },
              [this](msg::part_outputs& outputs) {
                log_.push_back(
                    fmt::format("outputs {}, {} x {}", outputs.head.step, outputs.numbers.rows, outputs.numbers.cols));
              }};
    });
    trainer_peers peers{std::vector<msg::peer_actor>(4), std::vector<caf::actor_addr>(4)};
    peers.of_rank[0] = caf::actor_cast<msg::peer_actor>(leader);
    caf::actor_cast<trainer_state::pointer>(caf::actor_cast<caf::strong_actor_ptr>(follower_))
        ->state.set_peers(std::move(peers));
    msg::train order;
    order.job = settings;
    order.group = group_ = make_group();
    order.data_digest = (*model::open_dataset(*parsed))->digest();
    ended_ = watch(follower_);
    answer_ = ask<msg::trained>(follower_, order);
    run();
    ASSERT_TRUE(answer_->pending()) << protocol::describe(answer_->error);
  }

  /// Answers each share with itself, when the test triggers it.
  msg::allreduce_actor make_group() {
    return spawn([this](msg::allreduce_actor::pointer self) {
      return msg::allreduce_actor::behavior_type{
          [this, self](msg::reduce& share) -> caf::result<msg::reduced> {
            log_.push_back(fmt::format("reduce {}.{}, weight {}", share.head.step, share.bucket, share.batches));
            auto promise = self->make_response_promise<msg::reduced>();
            held_.push_back([promise, mean = msg::reduced{{}, share.bucket, false, share.grad}]() mutable {
              promise.deliver(std::move(mean));
            });
            return promise;
          },
          [](msg::bucket_share&) {}, [](msg::bucket_sum&) {}, [](msg::group_devices&) {},
          [this](msg::actor_query&) {
            for (auto& one : std::exchange(held_, {})) one();
            return msg::actor_status();
          }};
    });
  }
  /// Makes the group answer all pending shares.
  void reduce() {
    caf::anon_send(group_, msg::actor_query{});
    run();
  }

  template <class Message>
  void send(Message message) {
    caf::anon_send(caf::actor_cast<msg::part_actor>(follower_), std::move(message));
    run();
  }

  std::string phase() {
    const auto told = ask<msg::actor_status>(follower_, msg::actor_query{});
    run();
    if (!told->value) return "none";
    std::string all = told->value->phase;
    for (const auto& wait : told->value->waits) all += fmt::format(", {} {} of {}", wait.what, wait.step, wait.on);
    return all;
  }

  std::string error() const { return *ended_ ? protocol::describe(**ended_) : std::string(); }

  lines log_;
  msg::trainer_actor follower_;
  msg::allreduce_actor group_;
  std::vector<std::function<void()>> held_;
  std::shared_ptr<outcome<msg::trained>> answer_;
  std::shared_ptr<std::optional<caf::error>> ended_;
};

msg::tensor matrix(std::uint64_t rows, std::uint64_t cols) {
  return msg::tensor::own(rows, cols, std::vector<float>(rows * cols, 0.5F));
}

/// A part of a batch from the leader.
msg::activation input(std::uint64_t step, std::uint32_t micro_batch, std::uint64_t rows = samples / 2) {
  return {.head = {.step = step},
          .micro_batch = micro_batch,
          .batch_size = samples,
          .update = step,
          .ends_update = true,
          .numbers = matrix(rows, features),
          .values = matrix(rows, 1)};
}

TEST_F(PipelineWorker, PassesWhatComesAndWaitsForTheMean) {
  begin();
  EXPECT_EQ(phase(), "idle");
  send(input(1, 0));
  EXPECT_EQ(phase(), "passing, micro-batch 1 1 of trainer 0");
  send(input(1, 1));
  EXPECT_EQ(phase(), "reducing, bucket 0 1 of allreduce");
  send(input(2, 0));
  EXPECT_EQ(log_, (lines{"gradient 1.0, 2 x 6", "gradient 1.1, 2 x 6", "reduce 1.0, weight 1"}))
      << "the next step waits for the mean";
  reduce();
  EXPECT_EQ(log_.back(), "gradient 2.0, 2 x 6");
  EXPECT_EQ(phase(), "passing, micro-batch 1 2 of trainer 0");
}

TEST_F(PipelineWorker, LeavesTheDecisionToTheLeaderWhereStepsMayBeClipped) {
  begin({{"clip-norm", "1"}});
  const auto part = caf::actor_cast<msg::part_actor>(follower_);
  const auto early = ask<msg::committed>(part, msg::optimizer_step{{.step = 1}, 0, true, 1});
  send(input(1, 0));
  EXPECT_TRUE(early->error) << "there is nothing to decide";
  send(input(1, 1));
  reduce();
  EXPECT_EQ(phase(), "deciding, the optimizer step 1 of trainer 0");
  const auto norm = ask<msg::squared_norm>(part, msg::gradient_norm{{.step = 1}, 0});
  const auto done = ask<msg::committed>(part, msg::optimizer_step{{.step = 1}, 0, true, 0.5F});
  run();
  EXPECT_TRUE(norm->value);
  EXPECT_TRUE(done->value);
  EXPECT_EQ(phase(), "idle");
}

TEST_F(PipelineWorker, ReducesWithoutWeightWhereTheReplicaHasNoBatch) {
  begin();
  send(msg::activation{.head = {.step = 1}, .update = 1, .ends_update = false});
  EXPECT_EQ(phase(), "idle") << "the optimizer step has further batches";
  send(msg::activation{.head = {.step = 2}, .update = 1, .ends_update = true});
  EXPECT_EQ(phase(), "reducing, bucket 0 2 of allreduce");
  reduce();
  EXPECT_EQ(phase(), "idle");
  EXPECT_EQ(log_, lines{"reduce 2.0, weight 0"});
}

TEST_F(PipelineWorker, ReducesAfterEachBatchOfAStreamAndRestsAtItsEnd) {
  begin({{"schedule", "pipedream"}});
  send(input(1, 0, samples));
  EXPECT_EQ(phase(), "reducing, bucket 0 1 of allreduce");
  send(input(2, 0, samples));
  send(msg::activation{.head = {.step = 2}});  // the end of the stream
  EXPECT_EQ(log_, (lines{"gradient 1.0, 4 x 6", "reduce 1.0, weight 1"}));
  reduce();
  EXPECT_EQ(phase(), "reducing, bucket 0 2 of allreduce");
  reduce();
  EXPECT_EQ(phase(), "idle");
  send(input(3, 0, samples));
  EXPECT_EQ(log_.back(), "reduce 3.0, weight 1") << "another stream";
}

TEST_F(PipelineWorker, GivesOutputsAndItsStateBetweenSteps) {
  begin({{"micro-batches", "1"}});
  msg::activation tested{.head = {}, .trains = false, .batch_size = 3, .numbers = matrix(3, features)};
  send(tested);
  EXPECT_EQ(log_, lines{"outputs 0, 3 x 1"});
  const auto part = caf::actor_cast<msg::part_actor>(follower_);
  const auto later = ask<msg::part_state>(part, msg::part_query{{.step = 1}, true});
  run();
  EXPECT_TRUE(later->pending()) << "the step has not come";
  send(input(1, 0, samples));
  EXPECT_TRUE(later->pending());
  reduce();
  ASSERT_TRUE(later->value);
  EXPECT_EQ(later->value->numbers.front().rows, features + 1);
  EXPECT_EQ(phase(), "done");
  ASSERT_TRUE(answer_->value);
  EXPECT_EQ(answer_->value->steps, 1U);
}

TEST_F(PipelineWorker, FailsOnMessagesThatDoNotFit) {
  const auto expect = [this](const msg::activation& bad, const std::string& text) {
    begin();
    send(input(1, 0));
    send(bad);
    EXPECT_NE(error().find(text), std::string::npos) << error() << " for " << text;
    dismiss();
    run();
  };
  auto bad = input(1, 1);
  bad.rank = 2;
  expect(bad, "an activation of trainer 2, trainer 0 is to send them");
  expect(input(1, 0), "micro-batch 0 of a batch of 4 twice, or in a batch of 4");
  expect(input(1, 2), "micro-batch 2 of 2 in optimizer step 1");
  expect(input(1, 1, 3), "micro-batch 1: an activation of 3 x 6, this stage takes 2 samples of 6 numbers");
  bad = input(1, 1);
  bad.values = matrix(1, 1);
  expect(bad, "micro-batch 1: targets of another shape");
  bad = input(1, 1, 3);
  bad.batch_size = 6;
  expect(bad, "micro-batch 1 of a batch of 6 twice, or in a batch of 4");
}

TEST_F(PipelineWorker, FailsOnASumWithoutSlices) {
  begin();
  send(msg::partial_sum{{}, 0, 0, matrix(1, 1)});
  EXPECT_NE(error().find("a partial sum of trainer 0, which has no slice of this stage"), std::string::npos) << error();
}

TEST(StagePhases, NothingFollowsButWhatTheTableHas) {
  using enum stage_phase;
  const std::set<std::pair<stage_phase, stage_phase>> legal = {
      {idle, passing},   {idle, reducing},    {idle, done},         {passing, idle},  {passing, reducing},
      {reducing, idle},  {reducing, passing}, {reducing, deciding}, {deciding, idle}, {idle, failed},
      {passing, failed}, {reducing, failed},  {deciding, failed}};
  for (const auto from : {idle, passing, reducing, deciding, done, failed})
    for (const auto to : {idle, passing, reducing, deciding, done, failed})
      EXPECT_EQ(may_follow(from, to), legal.contains({from, to})) << int(from) << " to " << int(to);
}

}  // namespace
}  // namespace troupe::actors::pipeline_worker_test
