// Which peers get a link over plain TCP, which do not, and what each side reports.

#include <gtest/gtest.h>

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "cluster/links/bytes.hpp"
#include "cluster/links/handshake_role.hpp"
#include "cluster/links/tcp.hpp"
#include "tests/links/raw_socket.hpp"
#include "tests/links/stage.hpp"
#include "tests/value_of.hpp"

namespace troupe::links::handshake_test {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class HandshakeTest : public LinkStage {
 protected:
  /// Connects to a server that sends `text` to its client and then ends; returns the connector's error.
  fault fault_of_server_saying(std::span<const std::byte> text) {
    raw_server server;
    raw_socket peer(-1);
    const auto outcome = dial(server.address(), ours);
    EXPECT_TRUE(wait([&] { return server.accept(peer); }));
    peer.say(text);
    EXPECT_TRUE(wait([&] { return outcome->has_value(); }));
    EXPECT_FALSE(**outcome);
    return (*outcome)->error();
  }

  /// Sends `text` to a listener; returns the reason for its rejection.
  fault fault_of_client_saying(std::span<const std::byte> text) {
    raw_socket client = raw_socket::to(listen(ours));
    client.say(text);
    EXPECT_TRUE(wait([&] { return rejected.size() == 1; }));
    EXPECT_TRUE(wait([&] { return !client.hear(); }));
    return rejected.front();
  }

  static std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

  /// The prologue of a peer of another release.
  static std::vector<std::byte> prologue_of_version(std::uint16_t version) {
    const std::string word = "TROUPE";
    std::vector<std::byte> bytes;
    append(bytes, bytes_of(word));
    append_number(bytes, version);
    append(bytes, random_nonce());
    return bytes;
  }

  const credentials ours{good_token, nullptr};
  const credentials theirs{"another token of that length", nullptr};
};

TEST_F(HandshakeTest, BothSidesLearnWhatTheOtherSaysOfItself) {
  const endpoint where = listen(ours);
  const auto result = value_of(connected(where, ours));
  ASSERT_TRUE(wait([&] { return accepted.size() == 1; }));
  EXPECT_EQ(result->peer(), (hello{{"role", "acceptor"}}));
  EXPECT_EQ(accepted[0]->peer(), (hello{{"role", "connector"}}));
  EXPECT_EQ(hellos, std::vector<hello>{accepted[0]->peer()});
  EXPECT_EQ(result->remote_address(), where);
  EXPECT_EQ(accepted[0]->local_address(), where);
  EXPECT_EQ(result->local_address(), accepted[0]->remote_address());
}

TEST_F(HandshakeTest, AWrongTokenIsToldOnBothSidesAndShownOnNone) {
  const auto result = connected(listen(ours), theirs);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, fault_kind::not_trusted);
  ASSERT_TRUE(wait([&] { return rejected.size() == 1; }));
  EXPECT_EQ(rejected[0].kind, fault_kind::not_trusted);
  for (const std::string& text : {result.error().message, rejected[0].message}) {
    EXPECT_TRUE(has(text, "has another token")) << text;
    EXPECT_FALSE(has(text, ours.token)) << text;
    EXPECT_FALSE(has(text, theirs.token)) << text;
  }
  EXPECT_TRUE(hellos.empty());
}

TEST_F(HandshakeTest, AnAcceptorThatDoesNotKnowTheTokenIsNotBelieved) {
  auto text = prologue_of_version(4);
  text.push_back(std::byte{1});
  text.resize(text.size() + 32);  // a proof of zeros
  const auto fault = fault_of_server_saying(text);
  EXPECT_EQ(fault.kind, fault_kind::not_trusted);
  EXPECT_TRUE(has(fault.message, "has another token")) << fault.message;
}

TEST_F(HandshakeTest, AProofIsNotAcceptedFromWhoOnlyRepeatsIt) {
  raw_server server;
  raw_socket peer(-1);
  const auto outcome = dial(server.address(), ours);
  ASSERT_TRUE(wait([&] { return server.accept(peer); }));
  std::size_t repeated = 0;
  ASSERT_TRUE(wait([&] {
    peer.hear();
    // Repeats the bytes exactly, but with the verdict before the proof.
    if (repeated == 0 && peer.received().size() >= prologue_bytes) {
      peer.say(std::span(peer.received()).first(prologue_bytes));
      repeated = prologue_bytes;
    }
    if (repeated == prologue_bytes && peer.received().size() > prologue_bytes) {
      const std::byte yes{1};
      peer.say(std::span(&yes, 1));
      peer.say(std::span(peer.received()).subspan(prologue_bytes));
      repeated = peer.received().size();
    }
    return outcome->has_value();
  }));
  ASSERT_FALSE(**outcome);
  EXPECT_EQ((*outcome)->error().kind, fault_kind::not_trusted);
}

TEST_F(HandshakeTest, ARefusalReachesTheConnectorInTheAcceptorsWords) {
  refusal = "the run has\nall\x1b[31m trainers\u009b1m\u202e it needs";
  const auto result = connected(listen(ours), ours);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, fault_kind::refused);
  EXPECT_TRUE(has(result.error().message, "refused: the run has all\\x1b[31m trainers\\u009b1m\\u202e it needs"))
      << result.error().message;
  ASSERT_TRUE(wait([&] { return rejected.size() == 1; }));
  EXPECT_EQ(rejected[0].kind, fault_kind::refused);
}

TEST_F(HandshakeTest, AnotherVersionIsToldWithBothNumbers) {
  for (const auto& fault :
       {fault_of_server_saying(prologue_of_version(1)), fault_of_client_saying(prologue_of_version(1))}) {
    EXPECT_EQ(fault.kind, fault_kind::no_peer);
    EXPECT_TRUE(has(fault.message, "speaks version 1 of the handshake, this side version 4")) << fault.message;
  }
}

TEST_F(HandshakeTest, AnotherProgramIsRecognisedByItsFirstBytes) {
  for (const auto& fault : {fault_of_client_saying(bytes_of("GET / HTTP/1.1\r\n\r\n")),
                            fault_of_server_saying(bytes_of("220 mail.example ESMTP\r\n"))}) {
    EXPECT_EQ(fault.kind, fault_kind::no_peer);
    EXPECT_TRUE(has(fault.message, "speaks no Troupe; it said \"")) << fault.message;
  }
}

TEST_F(HandshakeTest, AServerThatEndsWithoutAWordIsWorthAnotherTry) {
  raw_server server;
  raw_socket peer(-1);
  const auto outcome = dial(server.address(), ours);
  ASSERT_TRUE(wait([&] { return server.accept(peer); }));
  ASSERT_TRUE(wait([&] { return peer.hear() && !peer.received().empty(); }));
  peer.close();
  ASSERT_TRUE(wait([&] { return outcome->has_value(); }));
  EXPECT_EQ((*outcome)->error().kind, fault_kind::unreachable);
  EXPECT_TRUE(has((*outcome)->error().message, "without a word")) << (*outcome)->error().message;
}

TEST_F(HandshakeTest, APortWhereNobodyListensIsWorthAnotherTry) {
  const endpoint where = raw_server().address();  // the server has already ended
  const auto result = connected(where, ours);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, fault_kind::unreachable);
  EXPECT_TRUE(has(result.error().message, to_string(where) + ": Connection refused")) << result.error().message;
}

TEST_F(HandshakeTest, AServerThatNeverSpeaksIsGivenUp) {
  const raw_server server;
  const auto result = connected(server.address(), ours, {.time = std::chrono::milliseconds(100)});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, fault_kind::unreachable);
  EXPECT_TRUE(has(result.error().message, "within 0.1 s")) << result.error().message;
}

TEST_F(HandshakeTest, AHelloThatIsAnnouncedTooLongIsRefusedUnread) {
  const auto role = acceptor_role(good_token, [](const hello&, const std::string&) -> hello_reply { return hello{}; });
  const auto connector = connector_role(good_token, {});
  const auto opening = role->begin({});
  const auto proof = connector->feed(opening.send);
  role->feed(connector->begin({}).send);
  EXPECT_EQ(role->feed(proof.send).want, 4U);
  std::vector<std::byte> length;
  append_number(length, std::uint32_t{hello_bytes_max + 1});
  const auto step = role->feed(length);
  ASSERT_TRUE(step.outcome);
  EXPECT_TRUE(has(step.outcome->error().message, "announced 65537 bytes about itself, the limit is 65536"));
}

TEST_F(HandshakeTest, AHelloOfOnesOwnThatIsTooLongIsAFaultAtOnce) {
  hello items;
  while (encode(items).size() <= hello_bytes_max) items.emplace_back("name", std::string(1000, 'x'));
  std::optional<result<link_ptr>> outcome;
  connect(io, listen(ours), ours, items, limits, {},
          [&outcome](result<link_ptr> result) { outcome = std::move(result); });
  ASSERT_TRUE(wait([&] { return outcome.has_value(); }));
  EXPECT_EQ(outcome->error().kind, fault_kind::input);
}

TEST_F(HandshakeTest, ConnectionsThatNeverSpeakKeepNobodyOut) {
  const endpoint where = listen(ours, {.time = std::chrono::minutes(1), .pending_max = 64});
  std::vector<raw_socket> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(raw_socket::to(where));
  const auto result = connected(where, ours);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(rejected.size(), 200U + 1 - 64);
  EXPECT_TRUE(has(rejected[0].message, "the oldest of its address, which has most of more than 64 connections"))
      << rejected[0].message;
  EXPECT_FALSE(silent[0].hear());
  EXPECT_TRUE(silent[199].hear());
}

TEST_F(HandshakeTest, ConnectionsThatOneAddressKeepsComingPushOutNoneOfAnother) {
  const endpoint where = listen(ours, {.time = std::chrono::minutes(1), .pending_max = 8});
  raw_socket slow = raw_socket::to(where);  // the oldest, and the only one from its address
  std::vector<raw_socket> flood;
  for (int i = 0; i < 50; ++i) flood.push_back(raw_socket::to(where, "127.0.0.2"));
  ASSERT_TRUE(wait([&] { return rejected.size() == 50U + 1 - 8; }));
  for (const fault& one : rejected) EXPECT_TRUE(has(one.message, "127.0.0.2:")) << one.message;
  EXPECT_TRUE(slow.hear());
  EXPECT_FALSE(flood.front().hear());
  EXPECT_TRUE(flood.back().hear());
}

TEST_F(HandshakeTest, WhoSpeaksAByteAtATimeIsEndedInTime) {
  raw_socket slow = raw_socket::to(listen(ours, {.time = std::chrono::milliseconds(200)}));
  const auto text = prologue_of_version(4);
  std::size_t said = 0;
  boost::asio::steady_timer pace(io);
  const std::function<void()> say_next = [&] {
    pace.expires_after(std::chrono::milliseconds(20));
    pace.async_wait([&](const boost::system::error_code& error) {
      if (error || said == text.size()) return;
      slow.say(std::span(text).subspan(said++, 1));
      say_next();
    });
  };
  say_next();
  ASSERT_TRUE(wait([&] { return rejected.size() == 1; }));
  EXPECT_TRUE(has(rejected[0].message, "did not finish the handshake within 0.2 s")) << rejected[0].message;
  EXPECT_GT(said, 0U);
  EXPECT_LT(said, text.size());
  ASSERT_TRUE(wait([&] { return !slow.hear(); }));
}

TEST_F(HandshakeTest, AnAddressInUseIsNamedWithWhatToTry) {
  const endpoint where = listen(ours);
  const auto second = listener::open(io, where, ours, limits, {}, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, fault_kind::address_in_use);
  EXPECT_TRUE(has(second.error().message, to_string(where))) << second.error().message;
  EXPECT_TRUE(has(second.error().message, "choose another"));
  const auto nowhere = listener::open(io, {"192.0.2.1", 0}, ours, limits, {}, {});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().kind, fault_kind::input);
}

TEST_F(HandshakeTest, AListenerTellsTheAddressesThatItHasInsteadOfTheName) {
  const auto named = value_of(listener::open(io, {"localhost", 0}, ours, limits, {}, {}));
  for (const endpoint& one : named->addresses()) {
    EXPECT_TRUE(one.host == "127.0.0.1" || one.host == "::1") << one.host;
    EXPECT_EQ(one.port, named->address().port);
    EXPECT_NE(one.port, 0);
  }
}

TEST_F(HandshakeTest, AListenerLetsPeersInAtEachOfItsAddresses) {
  const auto at =
      listen_at_all({socket_address::parse("127.0.0.1", 0).value(), socket_address::parse("127.0.0.2", 0).value()});
  ASSERT_TRUE(at) << at.error().message;
  const auto both = listener::adopt(io, *at, ours, limits, {},
                                    {.on_hello =
                                         [](auto&&...) {
                                           return hello{{"a", "b"}};
                                         },
                                     .on_link = [this](link_ptr one) { accepted.push_back(one); },
                                     .on_rejected = {}});
  ASSERT_TRUE(both) << both.error().message;
  ASSERT_EQ((*both)->addresses().size(), 2u);
  for (const endpoint& where : (*both)->addresses()) {
    const auto made = value_of(connected(where, ours));
    EXPECT_EQ(made->remote_address(), where);
  }
  EXPECT_TRUE(wait([&] { return accepted.size() == 2; }));
  EXPECT_EQ(description_of((*both)->addresses()),
            to_string((*both)->addresses()[0]) + " and " + to_string((*both)->addresses()[1]));
}

TEST_F(HandshakeTest, APortCanBeListenedAtAgainRightAfterItsLinks) {
  const endpoint where = listen(ours);
  { const auto result = connected(where, ours); }
  ASSERT_TRUE(wait([&] { return accepted.size() == 1; }));
  accepted.clear();  // this side closes first, which leaves its port in TIME_WAIT
  listening.reset();
  const auto again = listener::open(io, where, ours, limits, {}, {});
  EXPECT_TRUE(again) << again.error().message;
}

TEST_F(HandshakeTest, AListenerThatHasGoneEndsWhoIsInTheHandshakeAndCallsNobody) {
  raw_socket silent = raw_socket::to(listen(ours));
  ASSERT_TRUE(wait([&] { return silent.hear() && !silent.received().empty(); }));
  listening.reset();
  ASSERT_TRUE(wait([&] { return !silent.hear(); }));
  EXPECT_TRUE(rejected.empty());
}

TEST_F(HandshakeTest, AListenerMayBeEndedByItsOwnCallback) {
  listener::callbacks what;
  what.on_hello = [this](const hello&, auto&&...) -> hello_reply {
    listening.reset();
    return hello{};
  };
  listening = std::move(*listener::open(io, {"127.0.0.1", 0}, ours, limits, {}, std::move(what)));
  const auto result = connected(listening->address(), ours);
  EXPECT_FALSE(result);
}

}  // namespace
}  // namespace troupe::links::handshake_test
