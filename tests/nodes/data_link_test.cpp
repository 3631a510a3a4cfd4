// A data link between two sets of actors in this process: answers, failures, timeouts, credit, and requests whose peer
// is gone.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/nodes/data_link_ends.hpp"

namespace troupe::nodes::data_link_test {
namespace {

TEST_F(DataLink, ALookupIsAnsweredThroughIt) {
  const auto receiver = link_to({five_rows, nullptr});
  for (std::uint64_t step = 1; step <= 3; ++step) {
    msg::rows found;
    self_->request(receiver, timeout, ask_rows(step))
        .receive([&](msg::rows& answer) { found = std::move(answer); },
                 [](const caf::error& error) { FAIL() << protocol::describe(error); });
    EXPECT_EQ(found.head.step, step);
    EXPECT_EQ(found.missing, 3u);
    ASSERT_EQ(found.tables.size(), 1u);
    EXPECT_EQ(found.tables[0].as<float>()[4], 5.0F);
    EXPECT_EQ(here_->newest_step(), step);
    EXPECT_EQ(there_->newest_step(), step);
  }
}

/// A gradient sent with its bags would be too long for this link.
TEST_F(DataLink, AGradientTravelsWithoutTheBagsOfItsLookup) {
  message_bytes_max_ = 3000;
  std::promise<msg::gradient> arrived;
  const auto receiver = link_to({five_rows, [&](msg::gradient& sent) { arrived.set_value(std::move(sent)); }});
  msg::lookup question = ask_rows(12);
  question.tables[0].indices = msg::blob::own(std::vector<std::int64_t>(300, 7));
  self_->request(receiver, timeout, question)
      .receive([](const msg::rows&) {}, [](const caf::error& error) { FAIL() << protocol::describe(error); });
  msg::gradient sent = some_gradient(12, 1200);
  sent.tables[0].indices = question.tables[0].indices;
  self_->send(receiver, sent);
  auto found = arrived.get_future();
  ASSERT_EQ(found.wait_for(timeout), std::future_status::ready);
  const msg::bag_gradient there = found.get().tables[0];
  EXPECT_EQ(there.indices, question.tables[0].indices);
  EXPECT_EQ(there.grad.as<float>().size(), 300u);
}

/// With all their bytes, the numbers would be too long for this link.
TEST_F(DataLink, NumbersTravelWithoutZeroBytes) {
  message_bytes_max_ = 1000;
  narrows_ = true;
  std::promise<msg::gradient> arrived;
  const auto receiver = link_to({five_rows, [&](msg::gradient& sent) { arrived.set_value(std::move(sent)); }});
  msg::gradient sent = some_gradient(12, 8);
  sent.tables[0].indices = msg::blob::own(std::vector<std::int64_t>(300, 65'535));
  self_->send(receiver, sent);
  auto found = arrived.get_future();
  ASSERT_EQ(found.wait_for(timeout), std::future_status::ready);
  EXPECT_EQ(found.get().tables[0].indices, sent.tables[0].indices);
}

/// The server is slow on the link's thread, which runs it once it has been quick elsewhere.
TEST_F(DataLink, WhoHasKeptItsThreadForLongIsRunElsewhere) {
  std::thread::id links_thread;
  on_thread([&] { links_thread = std::this_thread::get_id(); });
  std::atomic<std::thread::id> ran_on;
  const auto receiver = link_to({[&](msg::parameter_server_actor::pointer self, msg::lookup& asked) {
                                   ran_on = std::this_thread::get_id();
                                   if (ran_on.load() == links_thread)
                                     std::this_thread::sleep_for(std::chrono::milliseconds(200));
                                   return five_rows(self, asked);
                                 },
                                 nullptr});
  auto thread_of_lookup = [&, step = std::uint64_t{0}]() mutable {
    self_->request(receiver, timeout, ask_rows(++step))
        .receive([](const msg::rows&) {}, [](const caf::error& error) { FAIL() << protocol::describe(error); });
    return ran_on.load();
  };
  constexpr int many = 1000;  // the link decides how many quick ones it takes
  int lookups = 0;
  while (thread_of_lookup() != links_thread && lookups < many) ++lookups;
  ASSERT_LT(lookups, many);
  on_thread([] {});  // returns once the link has measured the lookup
  EXPECT_NE(thread_of_lookup(), links_thread);
}

/// Even if the server has been quick: its users' code may be slow the next time.
TEST_F(DataLink, AnActorThatRunsUsersCodeIsNeverRunOnItsThread) {
  std::thread::id links_thread;
  on_thread([&] { links_thread = std::this_thread::get_id(); });
  std::atomic<std::uint64_t> on_links_thread = 0;
  const auto receiver = link_to({[&](msg::parameter_server_actor::pointer self, msg::lookup& asked) {
                                   actors::leave_to_workers(self);
                                   if (std::this_thread::get_id() == links_thread) ++on_links_thread;
                                   return five_rows(self, asked);
                                 },
                                 nullptr});
  constexpr std::uint64_t many = 300;
  for (std::uint64_t step = 1; step <= many; ++step)
    self_->request(receiver, timeout, ask_rows(step))
        .receive([](const msg::rows&) {}, [](const caf::error& error) { FAIL() << protocol::describe(error); });
  EXPECT_EQ(on_links_thread, 0u);
}

TEST_F(DataLink, ARefusalComesBackWithItsWords) {
  const auto receiver = link_to({[](msg::parameter_server_actor::pointer, msg::lookup&) -> caf::result<msg::rows> {
                                   return protocol::make_failure(protocol::errc::bad_index, "index 7 of table 2");
                                 },
                                 nullptr});
  const caf::error error = failure_of(receiver, 1);
  EXPECT_EQ(error, protocol::errc::bad_index);
  EXPECT_EQ(protocol::describe(error), "index 7 of table 2");
}

TEST_F(DataLink, WhatNoDataLinkCarriesIsRefusedHere) {
  const auto receiver = link_to({five_rows, nullptr});
  caf::error found;
  self_->request(receiver, timeout, msg::parameters{})
      .receive([](const msg::parameter_list&) { ADD_FAILURE() << "an answer"; },
               [&](const caf::error& error) { found = error; });
  EXPECT_EQ(found, protocol::errc::bad_input);
}

TEST_F(DataLink, ARequestThatStaysUnansweredFailsNamingWhoWhatAndWhen) {
  const auto receiver = link_to({never(), nullptr});
  const auto asked = self_->request(receiver, caf::infinite, ask_rows(12));
  (void)asked;
  here_->expire(data_link::clock::now());
  caf::error found;
  auto answer = self_->request(receiver, caf::infinite, ask_rows(13));
  here_->expire(data_link::clock::now() + std::chrono::seconds(8));
  answer.receive([](const msg::rows&) { ADD_FAILURE() << "an answer"; },
                 [&](const caf::error& error) { found = error; });
  EXPECT_EQ(found, protocol::errc::timeout);
  EXPECT_EQ(protocol::describe(found),
            "server 0 did not answer lookup of step 13 within 7 s; --request-timeout allows more");
}

TEST_F(DataLink, ARequestOfNoStepFailsWithoutNamingOne) {
  const auto receiver = link_to({never(), nullptr});
  caf::error found;
  auto answer = self_->request(receiver, caf::infinite, ask_rows(0));
  here_->expire(data_link::clock::now() + std::chrono::seconds(8));
  answer.receive([](const msg::rows&) { ADD_FAILURE() << "an answer"; },
                 [&](const caf::error& error) { found = error; });
  EXPECT_EQ(protocol::describe(found), "server 0 did not answer lookup within 7 s; --request-timeout allows more");
}

TEST_F(DataLink, RequestsThatWaitFailWhenTheLinkIsLost) {
  std::promise<void> came;
  const auto receiver = link_to({[&, leave = never()](msg::parameter_server_actor::pointer self, msg::lookup& asked) {
                                   came.set_value();
                                   return leave(self, asked);
                                 },
                                 nullptr});
  auto answer = self_->request(receiver, caf::infinite, ask_rows(12));
  came.get_future().get();
  there_->close();
  EXPECT_EQ(word_of_loss(), "it has ended");
  caf::error found;
  answer.receive([](const msg::rows&) { ADD_FAILURE() << "an answer"; },
                 [&](const caf::error& error) { found = error; });
  EXPECT_EQ(found, protocol::errc::peer_failed);
  EXPECT_EQ(protocol::describe(found), "server 0 is gone: it has ended; lookup of step 12 is unanswered");
  EXPECT_EQ(protocol::describe(failure_of(receiver, 13)),
            "server 0 is gone: it has ended; lookup of step 13 cannot be asked");
}

TEST_F(DataLink, AnActorOfALinkThatWasLetGoIsGone) {
  const auto receiver = link_to({five_rows, nullptr});
  here_->close();
  here_.reset();
  EXPECT_NE(protocol::describe(failure_of(receiver, 1)), "");
}

// The receiver handles nothing until it is released; until then at most one window is in flight.
TEST_F(DataLink, ASlowReceiverHoldsTheSenderBackAtTheWindow) {
  constexpr std::uint64_t window = 64 << 10;
  constexpr std::size_t each = 8 << 10;
  constexpr std::size_t count = 40;
  std::promise<void> proceed;
  auto allowed = proceed.get_future().share();
  std::promise<void> all_came;
  std::vector<std::uint64_t> steps;
  const auto receiver = link_to({five_rows,
                                 [&](msg::gradient& one) {
                                   allowed.wait();
                                   if (one.head.step == 0) return;  // sent by the test to keep the actor busy
                                   steps.push_back(one.head.step);
                                   if (steps.size() == count) all_came.set_value();
                                 }},
                                window);
  caf::anon_send(actor_there_, some_gradient(0, 4));
  for (std::uint64_t step = 1; step <= count; ++step) caf::anon_send(receiver, some_gradient(step, each));
  // A frame is slightly longer than its numbers.
  EXPECT_EQ(here_->waiting_for_credit(), count - window / each + 1);
  proceed.set_value();
  ASSERT_EQ(all_came.get_future().wait_for(timeout), std::future_status::ready);
  EXPECT_EQ(here_->waiting_for_credit(), 0u);
  for (std::uint64_t step = 1; step <= count; ++step) EXPECT_EQ(steps[step - 1], step);
}

TEST_F(DataLink, AMessageLongerThanTheWindowGoesAllTheSame) {
  std::promise<std::size_t> came;
  const auto receiver =
      link_to({five_rows, [&](msg::gradient& one) { came.set_value(one.tables[0].grad.bytes.size()); }}, 1024);
  caf::anon_send(receiver, some_gradient(1, 1 << 20));
  auto size = came.get_future();
  ASSERT_EQ(size.wait_for(timeout), std::future_status::ready);
  EXPECT_EQ(size.get(), std::size_t{1} << 20);
}

// -- messages beyond the limit ------------------------------------------------------

void expect_too_long(const caf::error& error, const std::string& what) {
  EXPECT_EQ(error, protocol::errc::bad_input) << protocol::describe(error);
  const std::string text = protocol::describe(error);
  EXPECT_EQ(text.find(what + " has "), 0u) << text;
  EXPECT_NE(text.find(" bytes, the limit is 1000; try smaller batches (--batch-size)"), std::string::npos) << text;
}

TEST_F(DataLink, ARequestThatIsTooLongIsRefusedAndTheLinkGoesOn) {
  message_bytes_max_ = 1000;
  const auto receiver = link_to({five_rows, nullptr});
  msg::lookup many = ask_rows(12);
  many.tables[0].indices = msg::blob::own(std::vector<std::int64_t>(200));
  expect_too_long(failure_of(receiver, many), "lookup of step 12 for server 0");
  self_->request(receiver, timeout, ask_rows(13))
      .receive([](const msg::rows&) {}, [](const caf::error& error) { FAIL() << protocol::describe(error); });
}

TEST_F(DataLink, AnAnswerThatIsTooLongFailsAtWhoAsked) {
  message_bytes_max_ = 1000;
  const auto many_rows = [](msg::parameter_server_actor::pointer, msg::lookup& asked) -> caf::result<msg::rows> {
    return msg::rows{asked.head, {msg::tensor::own(500, 1, std::vector<float>(500))}, 0};
  };
  const auto receiver = link_to({many_rows, nullptr});
  expect_too_long(failure_of(receiver, 12), "rows of step 12 for trainer 1");
  expect_too_long(failure_of(receiver, 13), "rows of step 13 for trainer 1");
}

// A gradient has no answer that could carry the error.
TEST_F(DataLink, WhoSendsWhatIsTooLongEndsWithTheReason) {
  message_bytes_max_ = 1000;
  const auto receiver = link_to({five_rows, [](msg::gradient&) { ADD_FAILURE() << "it came"; }});
  const auto sender = system_.spawn([receiver](caf::event_based_actor* self) -> caf::behavior {
    self->send(receiver, some_gradient(12, 4000));
    return {[](int) {}};
  });
  self_->monitor(sender);
  self_->receive([](const caf::down_msg& down) { expect_too_long(down.reason, "gradient of step 12 for server 0"); });
}

}  // namespace
}  // namespace troupe::nodes::data_link_test
