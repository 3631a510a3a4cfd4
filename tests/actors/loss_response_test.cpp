// Which losses end a run at once, and which only once more is known.

#include "actors/master/loss_response.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "protocol/errors.hpp"

namespace troupe::actors::loss_response_test {
namespace {

using protocol::errc;
using action = loss_response::action;

verdict fatal(errc why) { return {verdict::kind::fatal, protocol::make_failure(why, "it has failed")}; }

verdict doubtful(errc why, std::string text) {
  return {verdict::kind::doubtful, protocol::make_failure(why, std::move(text))};
}

std::string description_of(const loss_response& losses) {
  const auto why = losses.reason_after_wait();
  return why ? protocol::describe(*why) : "none";
}

TEST(LossResponse, HarmlessOnesChangeNothing) {
  loss_response losses;
  EXPECT_EQ(losses.respond({}, run_phase::training), action::none);
  EXPECT_TRUE(losses.begin_end());
}

TEST(LossResponse, AnErrorThatWouldComeAgainEndsTheRunAtOnce) {
  loss_response losses;
  EXPECT_EQ(losses.respond(fatal(errc::not_finite), run_phase::training), action::fail);
  EXPECT_EQ(losses.respond(fatal(errc::bad_input), run_phase::making_tables), action::fail);
}

TEST(LossResponse, AfterATransientOneTheStepIsLearnedAndNothingElseCounts) {
  loss_response losses;
  EXPECT_EQ(losses.respond(fatal(errc::device_failed), run_phase::training), action::learn_step);
  EXPECT_EQ(losses.respond(fatal(errc::not_finite), run_phase::training), action::none);
  EXPECT_EQ(losses.respond(doubtful(errc::peer_failed, "a"), run_phase::training), action::none);
  EXPECT_FALSE(losses.begin_end());
  EXPECT_EQ(description_of(losses), "none");
}

TEST(LossResponse, OfAnswersThatDoNotComeTheLateMembersAreFoundOnce) {
  loss_response losses;
  EXPECT_EQ(losses.respond(fatal(errc::timeout), run_phase::making_tables), action::fail) << "no trainer computes yet";
  EXPECT_EQ(losses.respond(fatal(errc::timeout), run_phase::training), action::find_late);
  EXPECT_EQ(losses.respond(fatal(errc::timeout), run_phase::training), action::none);
  EXPECT_EQ(description_of(losses), "none");
  EXPECT_TRUE(losses.begin_end()) << "a process may be lost meanwhile";
}

TEST(LossResponse, AfterAWaitTheFirstReasonCountsThatIsNoConsequenceOfAnother) {
  loss_response losses;
  EXPECT_EQ(losses.respond(doubtful(errc::peer_failed, "a has gone"), run_phase::training), action::await_better_one);
  EXPECT_EQ(description_of(losses), "a has gone");
  EXPECT_EQ(losses.respond(doubtful(errc::peer_failed, "b has gone"), run_phase::training), action::await_better_one);
  EXPECT_EQ(description_of(losses), "a has gone");
  EXPECT_EQ(losses.respond(doubtful(errc::exception, "c threw"), run_phase::training), action::await_better_one);
  EXPECT_EQ(losses.respond(doubtful(errc::exception, "d threw"), run_phase::training), action::await_better_one);
  EXPECT_EQ(description_of(losses), "c threw");
  EXPECT_TRUE(losses.begin_end());
  EXPECT_EQ(description_of(losses), "none") << "a lost process ends it";
}

}  // namespace
}  // namespace troupe::actors::loss_response_test
