// The parameter server under the deterministic scheduler: parking, commits, rank order, exactly-once application,
// errors.

#include <fmt/format.h>

#include <array>
#include <limits>

#include "actors/common/actor_name.hpp"
#include "model/exact_sum.hpp"
#include "tests/actors/server_stage.hpp"

namespace troupe::actors::parameter_server_test {
namespace {

using ParameterServer = server_stage;

TEST_F(ParameterServer, ALookupIsParkedUntilEveryTrainersGradientHasBeenApplied) {
  make(2);
  auto now = ask<msg::rows>(server_, look_up(1, {3}));
  auto later = ask<msg::rows>(server_, look_up(2, {3}));
  run();
  EXPECT_TRUE(now->value);
  EXPECT_TRUE(later->pending());
  send(grad(1, 0, 3, 0.5F));
  EXPECT_TRUE(later->pending());
  send(grad(1, 1, 3, 0.25F));
  ASSERT_TRUE(later->value);
  EXPECT_EQ(later->value->tables[0].as<float>()[0], -0.75F);
}

TEST_F(ParameterServer, SumsAreInRankOrderWhateverTheOrderOfArrival) {
  // (1 + 1e8) - 1e8 is 0 in float32, but 1 + (1e8 - 1e8) is 1: the result reveals the order.
  const float values[] = {1.0F, 1e8F, -1e8F};
  const float expected = -((values[0] + values[1]) + values[2]);
  for (std::vector<std::uint32_t> order : {std::vector<std::uint32_t>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    make(3);
    for (std::uint32_t rank : order) send(grad(1, rank, 0, values[rank]));
    EXPECT_EQ(value_at(2, 0), expected);
  }
}

TEST_F(ParameterServer, TheMeanCountsTheTrainersThatHadABatch) {
  make(3, "mean");
  send(grad(1, 0, 2, 3.0F));
  send({head(1), 1, false, true, {}});
  send(grad(1, 2, 2, 5.0F));
  EXPECT_EQ(value_at(2, 2), -4.0F);
}

TEST_F(ParameterServer, AGradientThatComesTwiceIsAppliedOnce) {
  make(1);
  const msg::gradient once = grad(1, 0, 4, 1.0F);
  send(once);
  send(once);
  EXPECT_EQ(value_at(2, 4), -1.0F);
}

TEST_F(ParameterServer, AGradientThatWasOvertakenEndsTheServerInsteadOfBeingLeftOut) {
  make(1, "mean", "sum", 4);
  const msg::gradient early = grad(1, 0, 4, 1.0F, false);
  const msg::gradient late = grad(1, 0, 5, 1.0F, false);
  auto ended = watch(server_);
  run();
  send(late);
  EXPECT_FALSE(*ended);
  send(early);
  ASSERT_TRUE(*ended);
  EXPECT_EQ(**ended, protocol::errc::wrong_context);
  EXPECT_EQ(protocol::describe(**ended),
            fmt::format("server 0, step 1: a gradient of rank 0 is its message {} and comes after "
                        "its message {}: it was overtaken on its way",
                        early.head.sequence, late.head.sequence));
}

/// Two trainers, each in its own process.
class TrainersElsewhere : public server_stage {
 protected:
  TrainersElsewhere() {
    make(2);
    send_origins(server_, {1, {link_to_[0]->address(), link_to_[1]->address()}});
    run();
  }

  msg::header head_of(std::uint32_t rank) { return head(1, trainer_number(rank, 1)); }

  msg::lookup look_up_as(std::uint32_t rank) {
    msg::lookup made = look_up(1, {4});
    made.head = head_of(rank);
    return made;
  }

  msg::gradient grad_as(std::uint32_t rank) {
    msg::gradient made = grad(1, rank, 4, 1.0F);
    made.head = head_of(rank);
    return made;
  }

  /// Returns the error for a message from the process of trainer `from`; empty if it is accepted.
  template <class Answer, class Message>
  std::string refusal_of(std::uint32_t from, Message message) {
    auto request = link_to_[from]->request(server_, caf::infinite, std::move(message));
    run();
    std::string refusal;
    request.receive([](const Answer&) {}, [&](const caf::error& error) { refusal = protocol::describe(error); });
    return refusal;
  }

  std::array<caf::scoped_actor, 2> link_to_{{{system()}, {system()}}};
};

TEST_F(TrainersElsewhere, AreBelievedFromTheirOwnProcessOnly) {
  const std::string not_theirs = "of trainer 0 from a process that does not have that trainer";
  EXPECT_EQ(refusal_of<msg::rows>(0, look_up_as(0)), "");
  EXPECT_EQ(refusal_of<msg::rows>(1, look_up_as(0)), "server 0, step 1: a lookup " + not_theirs);
  EXPECT_EQ(refusal_of<msg::squared_norm>(1, msg::gradient_norm{head_of(0), 0}),
            "server 0, step 1: a question for the norm " + not_theirs);
  EXPECT_EQ(refusal_of<msg::committed>(1, msg::optimizer_step{head_of(0), 0}),
            "server 0, step 1: an optimizer step " + not_theirs);
  EXPECT_EQ(refusal_of<msg::committed>(1, msg::optimizer_step{head_of(1), 0}),
            "server 0, step 1: an optimizer step of rank 0 from trainer 1");
  EXPECT_EQ(refusal_of<msg::committed>(1, msg::optimizer_step{head(1, server_number(0)), 1}),
            "server 0, step 1: an optimizer step of actor 2, which is not a trainer with rows");

  // None of that has had an effect.
  for (std::uint32_t rank : {0U, 1U}) link_to_[rank]->send(server_, grad_as(rank));
  run();
  msg::lookup after = look_up(2, {4});
  after.head.sender = trainer_number(0, 1);
  EXPECT_EQ(refusal_of<msg::rows>(0, std::move(after)), "");
}

TEST_F(TrainersElsewhere, AGradientInAnothersNameEndsTheServerAndSilencesNobody) {
  auto ended = watch(server_);
  run();
  msg::gradient forged = grad_as(0);
  forged.head.sequence = UINT64_MAX;
  link_to_[1]->send(server_, forged);
  run();
  ASSERT_TRUE(*ended) << "the trainer's own gradients would be taken for older ones from now on";
  EXPECT_EQ(**ended, protocol::errc::wrong_context);
  EXPECT_EQ(protocol::describe(**ended),
            "server 0, step 1: a gradient of trainer 0 from a process that does not have that trainer");
}

TEST_F(ParameterServer, TheOptimizerStepOnItsOwnDoesWhatTheRidingOneDoes) {
  make(2);
  send(grad(1, 0, 1, 0.5F, false));
  send(grad(1, 0, 1, 0.25F, false));
  send(grad(1, 1, 1, 0.125F, false));
  auto first = ask<msg::committed>(server_, msg::optimizer_step{head(1), 0, true});
  run();
  EXPECT_TRUE(first->pending()) << "committed before the second trainer's step";
  auto second = ask<msg::committed>(server_, msg::optimizer_step{head(1), 1, true});
  run();
  EXPECT_TRUE(first->value && second->value);
  EXPECT_EQ(value_at(2, 1), -0.875F * (2.0F / 3)) << "three batches, two trainers: the sum of two means";
}

TEST_F(ParameterServer, GradientsOfTheNextStepWaitForThisOne) {
  make(2);
  send(grad(1, 0, 0, 1.0F));
  send({head(2), 0, false, true, {}});
  send({head(1), 1, false, true, {}});
  EXPECT_EQ(value_at(2, 0), -1.0F);
  send(grad(2, 1, 0, 2.0F));
  EXPECT_EQ(value_at(3, 0), -3.0F);
}

TEST_F(ParameterServer, BatchesAreAccumulatedToOneOptimizerStep) {
  make(2, "mean", "sum", 3);
  auto within = ask<msg::rows>(server_, look_up(3, {0}));
  auto after = ask<msg::rows>(server_, look_up(4, {0}));
  run();
  EXPECT_TRUE(within->value) << "steps 1 to 3 see the same rows";
  EXPECT_TRUE(after->pending());
  send(grad(1, 0, 0, 1.0F, false));
  send(grad(2, 0, 0, 2.0F, false));
  send(grad(3, 0, 0, 4.0F, true));
  send(grad(1, 1, 0, 8.0F, false));
  send({head(2), 1, false, false, {}});
  EXPECT_TRUE(after->pending());
  send(grad(3, 1, 0, 16.0F, true));
  ASSERT_TRUE(after->value);
  EXPECT_EQ(after->value->tables[0].as<float>()[0], -31.0F * (1.0F / 5)) << "the mean over the five batches there were";
  EXPECT_EQ(value_at(6, 0), -31.0F * (1.0F / 5));
}

TEST_F(ParameterServer, TheLastOptimizerStepMayHaveFewerBatches) {
  make(1, "mean", "sum", 4);
  send(grad(1, 0, 0, 1.0F, false));
  send(grad(2, 0, 0, 2.0F, true));
  EXPECT_EQ(value_at(3, 0), -1.5F) << "the rows after the run's end";
}

TEST_F(ParameterServer, ALookupMayLackAsManyStepsAsItAllows) {
  constexpr std::uint32_t staleness = 2;
  make(2, "sum", "sum", 1, staleness);
  auto third = ask<msg::rows>(server_, look_up(3, {0}, staleness));
  auto fourth = ask<msg::rows>(server_, look_up(4, {0}, staleness));
  auto fresh = ask<msg::rows>(server_, look_up(2, {0}, 0));
  run();
  ASSERT_TRUE(third->value);
  EXPECT_EQ(third->value->missing, 2u);
  EXPECT_TRUE(fourth->pending());
  EXPECT_TRUE(fresh->pending());
  send(grad(1, 0, 0, 1.0F));
  send(grad(2, 0, 0, 2.0F));
  EXPECT_TRUE(fourth->pending()) << "step 1 lacks the other trainer's gradient";
  send(grad(1, 1, 0, 4.0F));
  ASSERT_TRUE(fourth->value && fresh->value);
  EXPECT_EQ(fourth->value->missing, 2u);
  EXPECT_EQ(fourth->value->tables[0].as<float>()[0], -5.0F) << "steps are applied whole and in order";
  EXPECT_EQ(fresh->value->missing, 0u);
}

TEST_F(ParameterServer, AsyncAppliesEachTrainersGradientAsItComes) {
  make(2, "mean", "sum", 1, model::any_staleness);
  send(grad(1, 1, 0, 1.0F));
  auto seen = ask<msg::rows>(server_, look_up(2, {0}, model::any_staleness));
  auto fresh = ask<msg::rows>(server_, look_up(2, {0}, 0));
  run();
  ASSERT_TRUE(seen->value);
  EXPECT_EQ(seen->value->tables[0].as<float>()[0], -0.5F) << "half a mean of two";
  EXPECT_EQ(seen->value->missing, 1u);
  EXPECT_TRUE(fresh->pending()) << "an evaluation waits for all";
  send(grad(2, 1, 0, 1.0F));
  EXPECT_TRUE(fresh->pending());
  send(grad(1, 0, 0, 2.0F));
  ASSERT_TRUE(fresh->value);
  EXPECT_EQ(fresh->value->tables[0].as<float>()[0], -2.0F);
  auto norm = ask<msg::squared_norm>(server_, msg::gradient_norm{head(3), 0});
  run();
  EXPECT_EQ(norm->error, protocol::errc::wrong_context);
}

TEST_F(ParameterServer, TheNormIsThatOfTheGradientTheOptimizerWouldSee) {
  make(2, "mean");
  send(grad(1, 0, 0, 3.0F, false));
  send(grad(1, 0, 5, 1.0F, false));
  auto first = ask<msg::squared_norm>(server_, msg::gradient_norm{head(1), 0});
  send(grad(1, 1, 0, 6.0F, false));
  EXPECT_TRUE(first->pending());
  auto second = ask<msg::squared_norm>(server_, msg::gradient_norm{head(1), 1});
  run();
  ASSERT_TRUE(first->value && second->value);
  EXPECT_EQ(first->value->limbs, second->value->limbs);
  const double expected = dim * (3.0 * 3.0 + 1.0 / 9.0);  // rows 0 and 5: (3 + 6) / 3 and 1 / 3
  EXPECT_NEAR(model::exact_sum::from(first->value->limbs.as<std::int64_t>())->value(), expected, 1e-6);
  auto one = ask<msg::committed>(server_, msg::optimizer_step{head(1), 0, true, 0.5F});
  auto two = ask<msg::committed>(server_, msg::optimizer_step{head(1), 1, true, 0.5F});
  run();
  ASSERT_TRUE(one->value && two->value);
  EXPECT_NEAR(value_at(2, 0), -1.5F, 1e-6);
}

// Modules apply exactly what they had collected for the norm.
TEST_F(ParameterServer, NothingIsAddedToAStepAfterTheQuestionForItsNorm) {
  make(2);
  send(grad(1, 0, 0, 3.0F, false));
  auto first = ask<msg::squared_norm>(server_, msg::gradient_norm{head(1), 0});
  auto second = ask<msg::squared_norm>(server_, msg::gradient_norm{head(1), 0});
  run();
  EXPECT_TRUE(first->pending()) << "the same rank twice is not all ranks";
  EXPECT_EQ(second->error, protocol::errc::wrong_context);
  auto ended = watch(server_);
  run();
  send(grad(1, 0, 0, 1.0F, false));
  ASSERT_TRUE(*ended);
  EXPECT_EQ(**ended, protocol::errc::wrong_context);
  EXPECT_EQ(protocol::describe(**ended), "server 0, step 1: a gradient of rank 0 after its question for the norm");
}

TEST_F(ParameterServer, TheNextStepMayAskForItsNormAgain) {
  make(1);
  for (std::uint64_t step : {1, 2}) {
    send(grad(step, 0, 0, 3.0F, false));
    auto norm = ask<msg::squared_norm>(server_, msg::gradient_norm{head(step), 0});
    auto applied = ask<msg::committed>(server_, msg::optimizer_step{head(step), 0, true, 1});
    run();
    EXPECT_TRUE(norm->value && applied->value);
  }
}

TEST_F(ParameterServer, AStepThatIsLeftOutChangesNothing) {
  make(1);
  send(grad(1, 0, 0, 3.0F, false));
  auto left_out = ask<msg::committed>(server_, msg::optimizer_step{head(1), 0, false});
  run();
  ASSERT_TRUE(left_out->value);
  EXPECT_EQ(value_at(2, 0), 0.0F);
  send(grad(2, 0, 0, 1.0F));
  EXPECT_EQ(value_at(3, 0), -1.0F);
}

TEST_F(ParameterServer, TrainersThatDoNotAgreeOnAStepEndTheServer) {
  make(2);
  auto ended = watch(server_);
  run();
  caf::anon_send(server_, msg::optimizer_step{head(1), 0, true, 1.0F});
  caf::anon_send(server_, msg::optimizer_step{head(1), 1, true, 0.5F});
  run();
  ASSERT_TRUE(*ended);
  EXPECT_EQ(**ended, protocol::errc::wrong_context) << protocol::describe(**ended);
}

TEST_F(ParameterServer, AResumedRunGoesOnWithTheNextStep) {
  make(1, "sum", "sum", 2, 0, 6);
  auto old = ask<msg::rows>(server_, look_up(6, {0}));
  run();
  EXPECT_EQ(old->error, protocol::errc::wrong_context);
  EXPECT_EQ(value_at(7, 0), 0.0F);
  send(grad(7, 0, 0, 1.0F, false));
  send(grad(8, 0, 0, 1.0F));
  EXPECT_EQ(value_at(9, 0), -1.0F);
}

TEST_F(ParameterServer, RowsComeUnpooledWhenNoOffsetsAreGiven) {
  make(1);
  send(grad(1, 0, 7, 2.0F));
  auto seen = ask<msg::rows>(server_, msg::lookup{head(2), {{module_, numbers({7, 0, 7}), {}, {}}}});
  run();
  ASSERT_TRUE(seen->value);
  EXPECT_EQ(seen->value->tables[0].rows, 3u);
  EXPECT_EQ(seen->value->tables[0].as<float>()[0], -2.0F);
  EXPECT_EQ(seen->value->tables[0].as<float>()[dim], 0.0F);
}

TEST_F(ParameterServer, LookupsThatCannotBeAnsweredAreRefusedWithTheReason) {
  make(1);
  struct refusal {
    msg::lookup wanted;
    protocol::errc code;
    const char* says;
  };
  const std::vector<refusal> refusals = {
      {look_up(1, {10}), protocol::errc::bad_index, "index 10 is outside [0, 10)"},
      {look_up(1, {0, -1}), protocol::errc::bad_index, "index -1"},
      {{head(1), {{module_, numbers({1}), numbers({1}), {}}}}, protocol::errc::bad_index, "offset 1"},
      {{head(1), {{module_, numbers({1, 2}), numbers({0, 2, 1}), {}}}}, protocol::errc::bad_index, "offset 1"},
      {{head(1), {{module_, numbers({1, 2}), numbers({0}), msg::blob::own(std::vector<float>{1})}}},
       protocol::errc::bad_index,
       "1 per-sample weights for 2 indices"},
      {{head(1), {{module_ + 1, numbers({1}), numbers({0}), {}}}}, protocol::errc::unknown_module, "no module"},
      {{head(1), {{module_, numbers({1}), {}, {}}}, 0, dtype::f64},
       protocol::errc::bad_input,
       "a lookup of rows as float64: must be float32, float16 or bfloat16"},
      {look_up(0, {1}), protocol::errc::wrong_context, "step 0"},
      {look_up(9, {1}), protocol::errc::wrong_context, "step 9"},
      {{{run_number + 1, 1, 9, 0, ++sequence_, 0}, {}}, protocol::errc::wrong_context, "run 2"},
  };
  for (const refusal& r : refusals) {
    auto refused = ask<msg::rows>(server_, r.wanted);
    run();
    EXPECT_EQ(refused->error, r.code) << r.says;
    EXPECT_NE(protocol::describe(refused->error).find(r.says), std::string::npos) << protocol::describe(refused->error);
    EXPECT_EQ(protocol::describe(refused->error).rfind("server 0, step 1: ", 0), 0u)
        << protocol::describe(refused->error);
  }
  EXPECT_EQ(value_at(1, 0), 0.0F) << "the server continues";
}

TEST_F(ParameterServer, AGradientThatCannotBeAppliedEndsTheServerWithTheReason) {
  struct bad {
    msg::gradient message;
    protocol::errc code;
    const char* says;
  };
  make(2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  msg::gradient narrow = grad(1, 0, 3, 1.0F);
  narrow.tables[0].grad = msg::tensor::own(1, dim - 1, std::vector<float>(dim - 1));
  const std::vector<bad> all = {{grad(1, 0, 10, 1.0F), protocol::errc::bad_index, "index 10"},
                                {narrow, protocol::errc::shape_mismatch, "expected [1, 4]"},
                                {grad(1, 5, 3, 1.0F), protocol::errc::bad_input, "rank 5"},
                                {grad(7, 0, 3, 1.0F), protocol::errc::wrong_context, "step 7"},
                                {grad(1, 0, 3, nan), protocol::errc::not_finite, "row 3 is NaN or Inf"}};
  for (const bad& b : all) {
    make(2);
    auto ended = watch(server_);
    run();
    send(b.message);
    if (!*ended) send(grad(1, 1, 0, 1.0F));
    ASSERT_TRUE(*ended) << b.says;
    EXPECT_EQ(**ended, b.code) << protocol::describe(**ended);
    EXPECT_NE(protocol::describe(**ended).find(b.says), std::string::npos) << protocol::describe(**ended);
  }
}

}  // namespace
}  // namespace troupe::actors::parameter_server_test
