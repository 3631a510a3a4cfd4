// A trainer alone, among scripted actors: its messages, their order, and its waits.

#include "actors/trainer/job_trainer.hpp"

#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/data.hpp"
#include "tests/actors/stage.hpp"

namespace troupe::actors::trainer_test {
namespace {

using lines = std::vector<std::string>;

class Trainer : public stage {
 protected:
  /// Trainer 0 of the tutorial's job, whose steps have one bucket, and all actors that it talks to.
  void begin(const char* steps, const char* trainers = "2") {
    const std::vector<model::setting> settings = {{"data", "tutorial"}, {"trainers", trainers}, {"steps", steps}};
    const auto parsed = model::parse_job(settings);
    ASSERT_TRUE(parsed) << parsed.error().message;
    dim_ = (*model::open_dataset(*parsed))->spec().tables.at(0).dim;
    trainer_ = spawn(trainer, std::uint64_t{1}, 0U, 1U);
    order_.job = settings;
    order_.tables = {{{{}, server_ = make_server(), 5, 0, 1, 0}}};
    order_.group = make_group();
    order_.reports = make_reports();
  }

  void go() { answer_ = ask<msg::trained>(trainer_, order_); }

  std::string phase() {
    auto told = ask<msg::actor_status>(trainer_, msg::actor_query{});
    run();
    if (!told->value) return "none";
    std::string all = told->value->phase;
    for (const msg::wait_status& wait : told->value->waits)
      all += fmt::format(", {} {} of {}", wait.what, wait.step, wait.on);
    return all;
  }

  /// Makes `owner` send the answer that it holds back, in its handler of `nudge`.
  template <class Owner, class Nudge, class Answer>
  void deliver(const Owner& owner, Nudge nudge, caf::typed_response_promise<Answer>& held, Answer answer) {
    owed_ = [&held, answer = std::move(answer)]() mutable {
      held.deliver(std::move(answer));
      held = {};
    };
    caf::anon_send(owner, std::move(nudge));
    run();
  }

  msg::actor_status pay() {
    if (owed_) std::exchange(owed_, nullptr)();
    return {};
  }

  msg::rows zeros(const msg::lookup& wanted) const {
    const std::uint64_t bags = wanted.tables.at(0).offsets.as<std::int64_t>().size();
    msg::rows answer;
    answer.tables = {msg::tensor::own(bags, dim_, std::vector<float>(bags * dim_))};
    return answer;
  }

  lines log_;
  msg::train order_;
  msg::trainer_actor trainer_;
  msg::parameter_server_actor server_;
  std::shared_ptr<outcome<msg::trained>> answer_;
  std::size_t dim_ = 0;
  msg::reduced mean_to_give_;  ///< used in place of the share, if it has a gradient
  bool stops_ = false;         ///< the group makes all ranks stop, although none voted for it
  bool holds_rows_ = false;
  bool holds_mean_ = false;
  bool holds_save_ = false;
  msg::lookup held_lookup_;
  msg::reduced held_mean_;
  caf::typed_response_promise<msg::rows> rows_promise_;
  caf::typed_response_promise<msg::reduced> mean_promise_;
  caf::typed_response_promise<msg::committed> save_promise_;

 private:
  std::function<void()> owed_;

  msg::parameter_server_actor make_server() {
    return spawn([this](msg::parameter_server_actor::pointer self) {
      return msg::parameter_server_actor::behavior_type{
          [](msg::instantiate&) { return msg::module_ref{}; },
          [this, self](msg::lookup& wanted) -> caf::result<msg::rows> {
            log_.push_back(fmt::format("lookup {}", wanted.head.step));
            if (!holds_rows_) return zeros(wanted);
            held_lookup_ = wanted;
            return rows_promise_ = self->make_response_promise<msg::rows>();
          },
          [this](msg::gradient& given) {
            log_.push_back(fmt::format("gradient {}{}", given.head.step, given.step ? ", step" : ""));
          },
          [](msg::gradient_norm&) { return msg::squared_norm{}; },
          [](msg::optimizer_step&) { return msg::committed{}; },
          [](msg::parameters&) { return msg::parameter_list{}; },
          [](msg::state_dict&) { return msg::module_state{}; },
          [](msg::load_state_dict&) { return msg::committed{}; },
          [](msg::row_digests&) { return msg::tensor{}; },
          [](msg::save_module&) { return msg::saved_module{}; },
          [](msg::restore_module&) { return msg::committed{}; },
          [](msg::release&) {},
          [](msg::set_optimizer&) {},
          [](msg::call&) { return msg::returned{}; },
          [this](msg::actor_query&) { return pay(); }};
    });
  }

  msg::allreduce_actor make_group() {
    return spawn([this](msg::allreduce_actor::pointer self) {
      return msg::allreduce_actor::behavior_type{
          [this, self](msg::reduce& share) -> caf::result<msg::reduced> {
            log_.push_back(fmt::format("reduce {}", share.head.step));
            msg::reduced mean{
                {}, share.bucket, stops_ || share.stop, mean_to_give_.grad.rows > 0 ? mean_to_give_.grad : share.grad};
            if (!holds_mean_) return mean;
            held_mean_ = mean;
            return mean_promise_ = self->make_response_promise<msg::reduced>();
          },
          [](msg::bucket_share&) {}, [](msg::bucket_sum&) {}, [](msg::group_devices&) {},
          [this](msg::actor_query&) { return pay(); }};
    });
  }

  msg::report_actor make_reports() {
    return spawn([this](msg::report_actor::pointer self) {
      return msg::report_actor::behavior_type{
          [this](msg::progress&) { pay(); },
          [this](msg::epoch_report& told) {
            log_.push_back(fmt::format("epoch {}, {} steps", told.epoch, told.steps));
          },
          [](msg::evaluation&) {},
          [this, self](msg::save_dense& share) -> caf::result<msg::committed> {
            log_.push_back(fmt::format("save {}", share.head.step));
            if (!holds_save_) return msg::committed{};
            return save_promise_ = self->make_response_promise<msg::committed>();
          }};
    });
  }
};

TEST_F(Trainer, AStepsMessagesLeaveInTheirOrder) {
  begin("2");
  go();
  run();
  EXPECT_EQ(log_, (lines{"lookup 1", "gradient 1, step", "lookup 2", "reduce 1", "gradient 2, step", "reduce 2",
                         "epoch 1, 2 steps"}));
  ASSERT_TRUE(answer_->value) << protocol::describe(answer_->error);
  EXPECT_EQ(answer_->value->steps, 2u);
  EXPECT_FALSE(answer_->value->stopped);
  EXPECT_GT(answer_->value->dense.rows, 0u);
}

TEST_F(Trainer, TheOnlyOneTakesItsOwnGradientAsTheMean) {
  begin("2", "1");
  go();
  run();
  EXPECT_EQ(log_, (lines{"lookup 1", "gradient 1, step", "lookup 2", "gradient 2, step", "epoch 1, 2 steps"}));
  ASSERT_TRUE(answer_->value) << protocol::describe(answer_->error);
  EXPECT_EQ(answer_->value->steps, 2u);
}

TEST_F(Trainer, ItSaysInEachPhaseForWhatItWaits) {
  begin("1");
  order_.saves = true;
  holds_rows_ = holds_mean_ = holds_save_ = true;
  EXPECT_EQ(phase(), "idle");
  go();
  run();
  EXPECT_EQ(phase(), "looking up, rows 1 of server 0");
  deliver(server_, msg::actor_query{}, rows_promise_, zeros(held_lookup_));
  EXPECT_EQ(phase(), "reducing, bucket 0 1 of allreduce");
  deliver(order_.group, msg::actor_query{}, mean_promise_, held_mean_);
  EXPECT_EQ(phase(), "saving, the checkpoint 1 of master");
  EXPECT_TRUE(answer_->pending());
  deliver(order_.reports, msg::progress{}, save_promise_, msg::committed{});
  EXPECT_EQ(phase(), "done");
  EXPECT_TRUE(answer_->value) << protocol::describe(answer_->error);
}

TEST_F(Trainer, AWishToStopThatComesWithAMeanEndsTheLoopAfterThatStep) {
  begin("9");
  stops_ = true;
  go();
  run();
  ASSERT_TRUE(answer_->value) << protocol::describe(answer_->error);
  EXPECT_EQ(answer_->value->steps, 1u);
  EXPECT_TRUE(answer_->value->stopped);
}

TEST_F(Trainer, AWishToStopThatComesBeforeTheOrderEndsItAfterAStep) {
  begin("9");
  caf::anon_send(trainer_, msg::stop{});
  run();
  go();
  run();
  ASSERT_TRUE(answer_->value) << protocol::describe(answer_->error);
  EXPECT_EQ(answer_->value->steps, 1u);
  EXPECT_TRUE(answer_->value->stopped);
}

TEST_F(Trainer, ASecondOrderEndsIt) {
  begin("9");
  holds_rows_ = true;
  const auto reason = watch(trainer_);
  go();
  run();
  go();
  run();
  ASSERT_TRUE(*reason);
  EXPECT_EQ(protocol::describe(**reason), "trainer 0, step 0: a second order to train");
}

/// A peer of a user's program, or of another part of a network, that this trainer does not know.
TEST_F(Trainer, AMessageOfAnotherTrainerThatItDoesNotExpectEndsIt) {
  begin("9");
  holds_rows_ = true;
  const auto reason = watch(trainer_);
  go();
  run();
  caf::anon_send(caf::actor_cast<caf::actor>(trainer_), msg::peer_tensor{});
  run();
  ASSERT_TRUE(*reason);
  EXPECT_EQ(**reason, protocol::errc::wrong_context);
  EXPECT_EQ(protocol::describe(**reason),
            "trainer 0, step 0: a message of another trainer for trainer 0, which expects none");
}

TEST_F(Trainer, AQuestionForAPartThatItDoesNotHaveIsRefused) {
  begin("9");
  holds_rows_ = true;
  go();
  run();
  const auto state = ask<msg::part_state>(caf::actor_cast<msg::part_actor>(trainer_), msg::part_query{});
  run();
  EXPECT_EQ(state->error, protocol::errc::wrong_context);
  EXPECT_TRUE(answer_->pending()) << "it continues";
}

TEST_F(Trainer, BehindTheLastStepNothingIsLeftButTheCheckpoint) {
  begin("9");
  order_.saves = true;
  order_.from.steps_done = 9;
  go();
  run();
  EXPECT_EQ(log_, (lines{"save 9", "epoch 1, 9 steps"}));
  ASSERT_TRUE(answer_->value) << protocol::describe(answer_->error);
  EXPECT_EQ(answer_->value->steps, 9u);
}

TEST_F(Trainer, AMeanOfAnotherSizeEndsIt) {
  begin("2");
  mean_to_give_.grad = msg::tensor::own(3, 1, std::vector<float>(3));
  const auto reason = watch(trainer_);
  go();
  run();
  ASSERT_TRUE(*reason);
  EXPECT_EQ(**reason, protocol::errc::shape_mismatch);
  EXPECT_NE(protocol::describe(**reason).find("trainer 0, step 1: a mean of 3 numbers for a bucket of "),
            std::string::npos)
      << protocol::describe(**reason);
}

TEST_F(Trainer, TablesOfAnotherModelAreRefused) {
  for (const std::size_t tables : {0, 2}) {
    begin("2");
    order_.tables.resize(tables);
    const auto reason = watch(trainer_);
    go();
    run();
    ASSERT_TRUE(*reason);
    EXPECT_EQ(protocol::describe(**reason),
              fmt::format("trainer 0, step 0: shards of {} tables for a model of 1", tables));
  }
}

}  // namespace
}  // namespace troupe::actors::trainer_test
