// Invalid frames end a data link, with the reason.

#include <gtest/gtest.h>

#include "tests/nodes/data_link_ends.hpp"

namespace troupe::nodes::data_link_test {
namespace {

TEST_F(DataLink, WhatIsNoMessageEndsTheLinkWithTheReason) {
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string word = word_about(links::link::first_user_kind, {msg::blob::own(std::string("no message at all"))});
  EXPECT_TRUE(has(word, "it sent ") && has(word, "a frame that is not a message")) << word;
}

TEST_F(DataLink, AMessageForNobodyEndsTheLinkWithTheReason) {
  const auto parts = protocol::to_frame({1, 99}, caf::make_message(msg::committed{}));
  EXPECT_EQ(word_about(links::link::first_user_kind, *parts), "it sent a message for actor 99, which is not here");
}

// CAF uses the higher bits of a message's id, and the link also uses them.
TEST_F(DataLink, ARequestOfNoPossibleNumberEndsTheLinkWithTheReason) {
  actor_there_ = system_.spawn(server, handlers{five_rows, nullptr});
  spawned_.push_back(caf::actor_cast<caf::actor>(actor_there_));
  actors_here_.add(number, caf::actor_cast<caf::strong_actor_ptr>(actor_there_));
  constexpr std::uint64_t ours = (std::uint64_t{1} << 59) + 1;
  const auto parts = protocol::to_frame({ours, number}, caf::make_message(ask_rows(1)));
  EXPECT_EQ(word_about(links::link::first_user_kind, *parts), fmt::format("it sent a request of number {}", ours));
}

TEST_F(DataLink, CreditForNothingEndsTheLinkWithTheReason) {
  EXPECT_EQ(word_about(links::link::first_user_kind + 3, {msg::blob::own(std::vector<std::uint64_t>{5})}),
            "it sent a credit of 5 bytes, 0 are under way");
}

TEST_F(DataLink, AFrameOfAnotherKindEndsTheLinkWithTheReason) {
  EXPECT_EQ(word_about(77, {}), "it sent a frame of kind 77");
}

TEST_F(DataLink, AnAnswerToNothingIsIgnored) {
  const auto [near, far] = make_wires();
  start_here(near, 1 << 20);
  far->start({[](links::received_frame&&) {}, [](const fault*) {}});
  std::vector<links::piece> pieces;
  const auto parts = protocol::to_frame({77, 0}, caf::make_message(msg::committed{}));
  for (const msg::blob& part : *parts) pieces.push_back({part.owner(), part.data(), part.size()});
  far->send(links::link::first_user_kind + 1, std::move(pieces));
  far->send(77, {});
  EXPECT_EQ(word_of_loss(), "it sent a frame of kind 77") << "the answer has not ended the link";
}

}  // namespace
}  // namespace troupe::nodes::data_link_test
