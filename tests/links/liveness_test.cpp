// How a link detects a dead or invalid peer, and that it does not mistake other conditions for one.

#include <gtest/gtest.h>

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/digest.hpp"
#include "cluster/links/bytes.hpp"
#include "cluster/links/dead_after.hpp"
#include "cluster/links/frame.hpp"
#include "cluster/links/handshake_role.hpp"
#include "tests/links/raw_socket.hpp"
#include "tests/links/stage.hpp"

namespace troupe::links::liveness_test {
namespace {

using namespace std::chrono_literals;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class LivenessTest : public LinkStage {
 protected:
  /// Makes a link whose other end is a socket controlled by the test, after a proper handshake.
  void greet_raw_peer(const hello& about_peer = {}) {
    accepted.clear();
    peer = raw_socket::to(listen(mine));
    const auto role = connector_role(mine.token, about_peer);
    handshake_step step = role->begin({});
    while (!step.outcome) {
      peer.say(step.send);
      ASSERT_TRUE(wait([&] { return peer.hear() && peer.received().size() >= step.want; }));
      auto& received = peer.received();
      const std::vector<std::byte> wanted(received.begin(), received.begin() + static_cast<long>(step.want));
      received.erase(received.begin(), received.begin() + static_cast<long>(step.want));
      step = role->feed(wanted);
    }
    ASSERT_TRUE(wait([&] { return accepted.size() == 1; }));
    end = std::make_unique<link_end>(accepted.front());
  }

  std::string fault_after(const std::function<void()>& what) {
    greet_raw_peer();
    start(*end);
    what();
    EXPECT_TRUE(wait([&] { return end->end_count > 0; }));
    EXPECT_EQ(end->end_count, 1);
    if (!end->ended_by) return "goodbye";
    EXPECT_EQ(end->ended_by->kind, fault_kind::lost);
    return end->ended_by->message;
  }

  static std::vector<std::byte> frame_of(std::uint8_t kind, const std::string& body) {
    std::vector<std::byte> bytes;
    append(bytes, image_of({kind, body.size(), digest_of({to_piece(body)})}));
    append(bytes, std::as_bytes(std::span(body)));
    return bytes;
  }

  const credentials mine{good_token, nullptr};
  raw_socket peer{-1};
  std::unique_ptr<link_end> end;
};

TEST_F(LivenessTest, AConnectionThatEndsWithoutGoodbyeWasClosed) {
  EXPECT_EQ(fault_after([&] { peer.close(); }), "its connection was closed");
}

TEST_F(LivenessTest, AConnectionThatIsCutOffWasReset) {
  EXPECT_EQ(fault_after([&] { peer.reset(); }), "its connection was reset");
}

TEST_F(LivenessTest, GoodbyeIsNoFaultAndWhatFollowsIsIgnored) {
  EXPECT_EQ(fault_after([&] {
              auto text = frame_of(2, "before");
              append(text, frame_of(goodbye_kind, ""));
              append(text, frame_of(2, "after"));
              peer.say(text);
            }),
            "goodbye");
  ASSERT_EQ(end->frames.size(), 1U);
  EXPECT_EQ(to_text(end->frames[0]), "before");
}

TEST_F(LivenessTest, AHeaderThatAnnouncesTooMuchEndsTheLinkBeforeAnythingIsAllocated) {
  EXPECT_EQ(fault_after([&] {
              peer.say(image_of({2, std::uint64_t{4} << 30, 0}));
            }),
            "it announced a frame of 4294967296 bytes, the limit is 1073741824");
}

TEST_F(LivenessTest, AFlippedBitEndsTheLink) {
  auto text = frame_of(2, std::string(200'000, 'x'));
  text[100'000] ^= std::byte{1};
  const std::string fault = fault_after([&] { peer.say(text); });
  EXPECT_EQ(fault, "a frame of 200000 bytes came damaged: its bytes do not match their digest");
  EXPECT_TRUE(end->frames.empty());
}

TEST_F(LivenessTest, BytesThatAreNoFrameEndTheLink) {
  EXPECT_TRUE(has(fault_after([&] { peer.say(std::string(100, 'x')); }), "must begin with"));
}

TEST_F(LivenessTest, SilenceEndsTheLinkWithinItsTime) {
  limits.dead_after = 200ms;
  const std::string fault = fault_after([] {});
  EXPECT_TRUE(has(fault, "no byte came for 0.")) << fault;
  // The link has sent meanwhile.
  peer.hear();
  const auto ping = image_of({ping_kind, 0, 0});
  ASSERT_GE(peer.received().size(), ping.size());
  EXPECT_TRUE(std::equal(ping.begin(), ping.end(), peer.received().begin()));
}

TEST_F(LivenessTest, TwoLinksThatHaveNothingToSayStayAlive) {
  limits.dead_after = 200ms;
  auto [here, there] = make_ends(mine);
  start(*here);
  start(*there);
  bool late = false;
  boost::asio::steady_timer timer(io, 1s);
  timer.async_wait([&late](const boost::system::error_code&) { late = true; });
  ASSERT_TRUE(wait([&] { return late; }));
  EXPECT_EQ(here->end_count + there->end_count, 0);
  EXPECT_EQ(here->frame_count + there->frame_count, 0U);
}

TEST_F(LivenessTest, EachPeerIsPingedAsOftenAsItNeeds) {
  limits.dead_after = 1h;
  greet_raw_peer(with_dead_after({}, 1h));
  start(*end);
  raw_socket patient = std::move(peer);
  const auto end_of_patient = std::move(end);
  greet_raw_peer(with_dead_after({}, 100ms));
  start(*end);
  const std::size_t ping_bytes = image_of({ping_kind, 0, 0}).size();
  const auto pings = [ping_bytes](raw_socket& of) {
    EXPECT_TRUE(of.hear());
    return of.received().size() / ping_bytes;
  };
  ASSERT_TRUE(wait([&] { return pings(peer) >= 5; }));
  EXPECT_EQ(pings(patient), 0U);

  // A peer that does not announce its timeout may have a short one.
  raw_socket hasty = std::move(peer);
  const auto end_of_hasty = std::move(end);
  greet_raw_peer();
  start(*end);
  ASSERT_TRUE(wait([&] { return pings(peer) >= 2; }));
  EXPECT_GT(pings(hasty), pings(peer));
  EXPECT_EQ(pings(patient), 0U);
}

/// The link's thread runs only in `wait`.
TEST_F(LivenessTest, SomebodyElsePingsForAThreadThatIsBusy) {
  limits.dead_after = 100ms;
  greet_raw_peer(with_dead_after({}, 100ms));
  start(*end);
  const auto ping = image_of({ping_kind, 0, 0});
  while (peer.received().size() < ping.size()) {
    end->wire->keep_alive();
    ASSERT_TRUE(peer.hear());
  }
  EXPECT_TRUE(std::equal(ping.begin(), ping.end(), peer.received().begin()));
  for (int i = 0; i < 1000; ++i) end->wire->keep_alive();
  ASSERT_TRUE(peer.hear());
  EXPECT_LT(peer.received().size(), 1000 * ping.size()) << "only when it is time";
}

/// The following frames may take long, for example while the sender runs a user's code: the link must not be silent
/// meanwhile.
TEST_F(LivenessTest, AFrameThatWaitsForOthersGoesWithTheNextSignOfLife) {
  greet_raw_peer();
  start(*end);
  const std::string text = "others follow";
  end->wire->send(1, {to_piece(text)}, true);
  end->wire->keep_alive();
  ASSERT_TRUE(wait([&] {
    EXPECT_TRUE(peer.hear());
    const auto& bytes = peer.received();
    return std::ranges::search(bytes, text, [](auto a, char b) { return static_cast<char>(a) == b; }).begin() !=
           bytes.end();
  }));
}

TEST_F(LivenessTest, ATimeoutThatIsNoNumberIsNotTold) {
  const auto taken = [](const std::string& value) {
    hello items = {{"first", "1"}, {"link.dead-after-ms", value}, {"last", "2"}};
    const auto found = take_dead_after(items);
    EXPECT_EQ(items, (hello{{"first", "1"}, {"last", "2"}}));
    return found;
  };
  EXPECT_EQ(taken("5000"), 5s);
  for (const char* value : {"", "0", "-1", "5000x", " 5", "1e3", "4294967296"}) EXPECT_EQ(taken(value), std::nullopt);
  hello nothing = {{"first", "1"}};
  EXPECT_EQ(take_dead_after(nothing), std::nullopt);
}

TEST_F(LivenessTest, AFrameThatComesSlowlyIsASignOfLife) {
  limits.dead_after = 200ms;
  greet_raw_peer();
  start(*end);
  // Five times as long as the link would wait for a silent peer.
  constexpr std::size_t parts = 100;
  const auto text = frame_of(2, std::string(parts * 1000 - frame_header_bytes, 'x'));
  boost::asio::steady_timer pace(io);
  std::size_t said = 0;
  const std::function<void()> say_next = [&] {
    pace.expires_after(10ms);
    pace.async_wait([&](const boost::system::error_code& error) {
      if (error) return;
      peer.hear();
      peer.say(std::span(text).subspan(said * 1000, 1000));
      if (++said < parts) say_next();
    });
  };
  say_next();
  ASSERT_TRUE(wait([&] { return end->frame_count == 1 || end->end_count > 0; }));
  EXPECT_EQ(end->end_count, 0) << (end->ended_by ? end->ended_by->message : "");
  EXPECT_EQ(said, parts);
}

TEST_F(LivenessTest, AStopOfThisProcessIsNotTakenForTheDeathOfTheOther) {
  limits.dead_after = 100ms;
  greet_raw_peer();
  start(*end);
  io.poll();
  // The link's thread does not run for longer than the link's timeout, while the other side has sent.
  peer.say(frame_of(2, "still here"));
  const auto wake = std::chrono::steady_clock::now() + 300ms;
  while (std::chrono::steady_clock::now() < wake) std::this_thread::yield();
  ASSERT_TRUE(wait([&] { return end->frame_count == 1 || end->end_count > 0; }));
  EXPECT_EQ(end->frame_count, 1U);
  EXPECT_EQ(end->end_count, 0);
}

TEST_F(LivenessTest, ALinkThatHasBeenToldToPauseLeavesWhatComesWhereItIs) {
  limits.dead_after = 100ms;
  greet_raw_peer();
  start(*end);
  peer.say(frame_of(2, "one"));
  ASSERT_TRUE(wait([&] { return end->frame_count == 1; }));
  end->wire->pause_reading(true);
  peer.say(frame_of(2, "two"));
  // The link checks for signs of life many times, but caused the silence itself.
  bool late = false;
  boost::asio::steady_timer timer(io, 500ms);
  timer.async_wait([&late](const boost::system::error_code&) { late = true; });
  ASSERT_TRUE(wait([&] { return late; }));
  EXPECT_EQ(end->frame_count, 1U);
  EXPECT_EQ(end->end_count, 0);
  end->wire->pause_reading(false);
  ASSERT_TRUE(wait([&] { return end->frame_count == 2 || end->end_count > 0; }));
  EXPECT_EQ(to_text(end->frames.back()), "two");
  peer.close();
  EXPECT_TRUE(wait([&] { return end->end_count == 1; }));
}

TEST_F(LivenessTest, ALinkMayPauseWhileItHandsOverAFrameAndBeClosedThen) {
  greet_raw_peer();
  std::size_t frames = 0;
  end->wire->start({.on_frame =
                        [&](received_frame&&) {
                          ++frames;
                          end->wire->pause_reading(true);
                        },
                    .on_end = [](const fault*) {}});
  peer.say(frame_of(2, "one"));
  ASSERT_TRUE(wait([&] { return frames == 1; }));
  peer.say(frame_of(2, "two"));
  end->wire->close();
  const std::weak_ptr<link> watched = end->wire;
  end->wire.reset();
  accepted.clear();
  peer.close();
  EXPECT_TRUE(wait([&] { return watched.expired(); }));
  EXPECT_EQ(frames, 1U);
}

TEST_F(LivenessTest, CloseGivesUpOnAPeerThatDoesNotRead) {
  limits.dead_after = 200ms;
  greet_raw_peer();
  start(*end);
  for (int i = 0; i < 64; ++i) end->wire->send(2, {to_piece(std::string(1'000'000, 'x'))});
  end->wire->close();
  const std::weak_ptr<link> watched = end->wire;
  end->wire.reset();
  accepted.clear();
  EXPECT_TRUE(wait([&] { return watched.expired(); }));
}

TEST_F(LivenessTest, FramesThatCameBeforeTheConnectionBrokeAreStillDelivered) {
  greet_raw_peer();
  peer.say(frame_of(2, "one"));
  peer.say(frame_of(2, std::string(100'000, 'x')));
  peer.say(frame_of(goodbye_kind, ""));
  peer.close();
  start(*end);
  // To a peer that is gone: the failed send must not hide what the peer sent before.
  for (int i = 0; i < 10; ++i) {
    end->wire->send(2, {to_piece("anybody?")});
    io.poll_one();
  }
  ASSERT_TRUE(wait([&] { return end->end_count == 1; }));
  EXPECT_EQ(end->frame_count, 2U);
  EXPECT_FALSE(end->ended_by) << end->ended_by->message;
}

}  // namespace
}  // namespace troupe::links::liveness_test
