// What a link guarantees to senders and receivers of frames, over plain TCP and over TLS.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/links/certificates.hpp"
#include "tests/links/stage.hpp"

namespace troupe::links::link_test {
namespace {

constexpr std::size_t kibi = 1024;
constexpr std::size_t mebi = 1024 * kibi;

class LinkTest : public LinkStage, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    credentials mine{good_token, nullptr};
    if (std::string(GetParam()) == "certificates") {
      const authority signer("signer");
      mine.tls = *make_tls(signer.issue("both"));
    }
    if (std::string(GetParam()) == "token") mine.tls = *make_tls(expanded_key(good_token));
    std::tie(here, there) = make_ends(mine);
  }

  void start_both() {
    start(*here);
    start(*there);
  }

  std::unique_ptr<link_end> here;
  std::unique_ptr<link_end> there;
};

INSTANTIATE_TEST_SUITE_P(Over, LinkTest, testing::Values("tcp", "token", "certificates"),
                         [](const auto& one) { return one.param; });

/// Bytes that differ between frames and between positions in a frame.
std::string body(std::size_t thread, std::size_t number, std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 251 + number * 17 + thread * 101);
  return bytes;
}

std::vector<piece> in_pieces(const std::string& whole) {
  return {to_piece(whole.substr(0, whole.size() / 3)), to_piece(""), to_piece(whole.substr(whole.size() / 3))};
}

TEST_P(LinkTest, AFrameArrivesWithItsKindAndItsPiecesInOneAlignedBody) {
  start_both();
  here->wire->send(7, {to_piece("one "), to_piece(""), to_piece("two")});
  there->wire->send(255, {});
  ASSERT_TRUE(wait([&] { return there->frames.size() == 1 && here->frames.size() == 1; }));
  EXPECT_EQ(there->frames[0].kind, 7);
  EXPECT_EQ(to_text(there->frames[0]), "one two");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(there->frames[0].memory.get()) % 64, 0U);
  EXPECT_EQ(here->frames[0].kind, 255);
  EXPECT_EQ(here->frames[0].size, 0U);
}

TEST_P(LinkTest, FramesOfAllSizesFromSeveralThreadsArriveWholeAndInOrder) {
  start_both();
  const std::vector<std::size_t> sizes = {0, 1, 64 * kibi - 1, 3, 64 * kibi, 0, 64 * kibi + 1, 8 * mebi, 100};
  constexpr std::size_t thread_count = 3;
  constexpr std::size_t rounds = 2;
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < thread_count; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t number = 0; number < rounds * sizes.size(); ++number)
        here->wire->send(static_cast<std::uint8_t>(link::first_user_kind + thread),
                         in_pieces(body(thread, number, sizes[number % sizes.size()])));
    });
  }
  const bool all = wait([&] { return there->frames.size() == thread_count * rounds * sizes.size(); });
  for (std::thread& one : threads) one.join();
  ASSERT_TRUE(all) << (there->ended_by ? there->ended_by->message : "");
  std::vector<std::size_t> next(thread_count, 0);
  for (const received_frame& frame : there->frames) {
    const std::size_t thread = frame.kind - link::first_user_kind;
    const std::size_t number = next.at(thread)++;
    ASSERT_EQ(frame.size, sizes[number % sizes.size()]);
    ASSERT_EQ(to_text(frame), body(thread, number, frame.size)) << thread << " " << number;
  }
  EXPECT_TRUE(wait([&] { return here->wire->queued_bytes() == 0; }));
}

TEST_P(LinkTest, ManySmallPiecesAndFramesArriveInOrder) {
  start_both();
  std::string whole;
  for (int frame = 0; frame < 50; ++frame) {
    std::vector<piece> pieces;
    for (int i = 0; i < 300; ++i) {
      pieces.push_back(to_piece(std::to_string(frame * 1000 + i)));
      whole += std::to_string(frame * 1000 + i);
    }
    here->wire->send(2, std::move(pieces));
  }
  ASSERT_TRUE(wait([&] { return there->frames.size() == 50; }));
  std::string received;
  for (const received_frame& frame : there->frames) received += to_text(frame);
  EXPECT_EQ(received, whole);
}

TEST_P(LinkTest, WhatTheOtherSideDoesNotReadIsQueuedAndArrivesOnceItDoes) {
  start(*here);
  constexpr std::size_t count = 64;
  for (std::size_t i = 0; i < count; ++i) here->wire->send(2, {to_piece(body(0, i, mebi))});
  EXPECT_GT(here->wire->queued_bytes(), 8 * mebi);
  // Nothing changes as long as the other side does not read.
  for (int turn = 0; turn < 10; ++turn) io.poll();
  EXPECT_GT(here->wire->queued_bytes(), 8 * mebi);
  start(*there);
  ASSERT_TRUE(wait([&] { return there->frames.size() == count && here->wire->queued_bytes() == 0; }));
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(to_text(there->frames[i]), body(0, i, mebi)) << i;
}

TEST_P(LinkTest, WhatIsSentBeforeGoodbyeArrivesAndThenTheEndWithoutAFault) {
  start_both();
  for (std::size_t i = 0; i < 100; ++i) here->wire->send(2, {to_piece(body(0, i, 300 * kibi))});
  EXPECT_GT(here->wire->queued_bytes(), 0U);
  here->wire->close();
  here->wire->send(2, {to_piece("too late")});
  ASSERT_TRUE(wait([&] { return there->end_count == 1; }));
  EXPECT_EQ(there->frames.size(), 100U);
  EXPECT_FALSE(there->ended_by);
  EXPECT_EQ(here->end_count, 0);
  EXPECT_EQ(here->wire->queued_bytes(), 0U);
}

TEST_P(LinkTest, GoodbyeComesThroughWhatFlowsTheOtherWay) {
  start_both();
  for (std::size_t i = 0; i < 50; ++i) there->wire->send(2, {to_piece(body(0, i, mebi))});
  here->wire->send(2, {to_piece("last")});
  here->wire->close();
  ASSERT_TRUE(wait([&] { return there->end_count == 1; }));
  EXPECT_FALSE(there->ended_by) << there->ended_by->message;
  EXPECT_EQ(there->frames.size(), 1U);
}

TEST_P(LinkTest, BothMayCloseAtOnceAndLinksGoWhenNobodyHoldsThem) {
  start_both();
  const std::weak_ptr<link> first = here->wire;
  const std::weak_ptr<link> second = there->wire;
  here->wire->close();
  there->wire->close();
  here->wire.reset();
  there->wire.reset();
  accepted.clear();
  EXPECT_TRUE(wait([&] { return first.expired() && second.expired(); }));
  EXPECT_EQ(here->end_count + there->end_count, 0);
}

TEST_P(LinkTest, ALinkMayBeClosedBeforeItWasStarted) {
  start(*there);
  here->wire->close();
  start(*here);
  ASSERT_TRUE(wait([&] { return there->end_count == 1; }));
  EXPECT_FALSE(there->ended_by);
  EXPECT_EQ(here->end_count, 0);
}

TEST_P(LinkTest, NothingIsCalledAfterACallbackHasClosedTheLink) {
  int frames = 0;
  int ends = 0;
  there->wire->start({[&](received_frame&&) {
                        ++frames;
                        there->wire->close();
                      },
                      [&](const fault*) { ++ends; }});
  start(*here);
  for (int i = 0; i < 3; ++i) here->wire->send(2, {to_piece("frame")});
  ASSERT_TRUE(wait([&] { return here->end_count == 1; }));
  EXPECT_FALSE(here->ended_by);
  EXPECT_EQ(frames, 1);
  EXPECT_EQ(ends, 0);
}

TEST_P(LinkTest, ACallbackMayAnswerAndLinksKeepThemselvesAlive) {
  there->wire->start({[&, back = there->wire.get()](received_frame&& frame) {
                        back->send(3, {piece{frame.memory, frame.memory.get(), frame.size}});
                      },
                      {}});
  there->wire.reset();
  accepted.clear();
  start(*here);
  for (std::size_t i = 0; i < 100; ++i) here->wire->send(2, {to_piece(body(0, i, 100 * i))});
  ASSERT_TRUE(wait([&] { return here->frames.size() == 100; }));
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(to_text(here->frames[i]), body(0, i, 100 * i));
}

TEST_P(LinkTest, AFrameOverTheLimitEndsTheLinkThatWasToSendIt) {
  limits.frame_bytes_max = 1000;
  for (bool started : {true, false}) {
    accepted.clear();
    std::tie(here, there) = make_ends({good_token, nullptr});
    start(*there);
    if (started) start(*here);
    here->wire->send(2, {to_piece(std::string(1000, 'x'))});
    here->wire->send(2, {to_piece(std::string(1001, 'x'))});
    if (!started) start(*here);
    ASSERT_TRUE(wait([&] { return here->end_count == 1 && there->end_count == 1; }));
    EXPECT_EQ(here->ended_by->message, "a frame of 1001 bytes was to be sent to it, the limit is 1000");
    EXPECT_EQ(there->frame_count, 1U);
  }
}

TEST_P(LinkTest, LinksOutliveTheirIoContextWithoutHarm) {
  start_both();
  for (std::size_t i = 0; i < 64; ++i) here->wire->send(2, {to_piece(body(0, i, mebi))});
  std::atomic<bool> done = false;
  std::thread sender([&] {
    while (!done) here->wire->send(2, {to_piece("more")});
  });
  io.poll_one();
  listening.reset();
  owned_io.reset();
  done = true;
  sender.join();
  here->wire->send(2, {to_piece("no one")});
  EXPECT_EQ(here->wire->queued_bytes(), 0U);
  here->wire->close();
  there->wire->start({});
  EXPECT_EQ(here->end_count, 0);
}

}  // namespace
}  // namespace troupe::links::link_test
