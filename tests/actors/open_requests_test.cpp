// Requests to members, and when the work that depends on them continues.

#include "actors/master/open_requests.hpp"

#include "tests/actors/master_parts.hpp"

namespace troupe::actors::open_requests_test {
namespace {

class OpenRequests : public master_parts_stage {
 protected:
  OpenRequests() {
    for (int i = 0; i < 3; ++i)
      groups_.push_back(spawn([this](msg::allreduce_actor::pointer self) -> msg::allreduce_actor::behavior_type {
        return {[](msg::reduce&) { return msg::reduced{}; }, [](msg::bucket_share&) {}, [](msg::bucket_sum&) {},
                [](msg::group_devices&) {},
                [this, self](msg::actor_query&) {
                  return promises_.emplace_back(self->make_response_promise<msg::actor_status>());
                }};
      }));
  }

  /// Asks all groups; an answer with a name counts as an error.
  void ask_all() {
    as_master([this](master_parts& mine) {
      for (const auto& one : groups_)
        mine.requests.ask<msg::actor_status>(
            one, msg::actor_query{},
            [this](msg::actor_status& answer) -> caf::error {
              ++answers_;
              return answer.name.empty() ? caf::error{}
                                         : protocol::make_failure(protocol::errc::malformed, answer.name);
            },
            [this] { ++done_; });
    });
    run();
    ASSERT_EQ(promises_.size(), 3u);
  }

  template <class Answer>
  void answer(std::size_t which, Answer what) {
    run_in(caf::actor_cast<caf::strong_actor_ptr>(groups_.at(which)),
           [this, which, what = std::move(what)] { promises_.at(which).deliver(what); });
    run();
  }

  std::vector<msg::allreduce_actor> groups_;
  std::vector<caf::typed_response_promise<msg::actor_status>> promises_;
  int answers_ = 0;
  int done_ = 0;
};

TEST_F(OpenRequests, WhatFollowsGoesOnWhenTheLastIsAnsweredInAnyOrder) {
  ask_all();
  EXPECT_FALSE(parts_->requests.none_open());
  EXPECT_EQ(parts_->requests.questions().size(), 3u);
  for (const std::size_t which : {1, 2}) answer(which, msg::actor_status{});
  EXPECT_EQ(done_, 0);
  ASSERT_EQ(parts_->requests.questions().size(), 1u);
  EXPECT_EQ(parts_->requests.questions().begin()->second.receiver, groups_[0].address());
  answer(0, msg::actor_status{});
  EXPECT_EQ(done_, 1);
  EXPECT_TRUE(parts_->requests.none_open());
  EXPECT_TRUE(complaints_.empty());
}

TEST_F(OpenRequests, AnErrorAndAnAnswerThatCannotBeAreToldAndNothingFollows) {
  ask_all();
  answer(0, protocol::make_failure(protocol::errc::not_finite, "NaN"));
  answer(1, msg::actor_status{{}, "nonsense", {}, 0, {}, {}});
  answer(2, msg::actor_status{});
  EXPECT_EQ(done_, 0);
  ASSERT_EQ(complaints_.size(), 2u);
  EXPECT_EQ(complaints_[0].error, protocol::errc::not_finite);
  EXPECT_EQ(complaints_[0].receiver, groups_[0].address());
  EXPECT_EQ(complaints_[0].type, "troupe::actor_query");
  EXPECT_EQ(protocol::describe(complaints_[1].error), "nonsense");
  EXPECT_EQ(complaints_[1].receiver, groups_[1].address());
}

TEST_F(OpenRequests, ARunThatIsOverLooksAtNoAnswer) {
  ask_all();
  answer(0, msg::actor_status{});
  parts_->requests.close();
  for (const std::size_t which : {1, 2}) answer(which, msg::actor_status{});
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(done_, 0);
}

TEST_F(OpenRequests, NothingWaitsForWhatIsAskedAside) {
  std::vector<std::string> told;
  as_master([&](master_parts& mine) {
    for (const auto& one : {groups_[0], groups_[1]})
      mine.requests.ask_aside<msg::actor_status>(
          one, 1, msg::actor_query{}, [&told](msg::actor_status& answer) { told.push_back(answer.name); },
          [&told](const caf::error& error) { told.push_back(protocol::describe(error)); });
  });
  run();
  EXPECT_TRUE(parts_->requests.none_open());
  answer(1, msg::actor_status{{}, "fine", {}, 0, {}, {}});
  answer(0, protocol::make_failure(protocol::errc::not_finite, "NaN"));
  EXPECT_EQ(told, (std::vector<std::string>{"fine", "NaN"}));
  EXPECT_TRUE(complaints_.empty());
}

}  // namespace
}  // namespace troupe::actors::open_requests_test
