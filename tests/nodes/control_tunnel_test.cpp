// A control tunnel between a fake link and a socket that the test reads like CAF: which messages pass, and that neither
// side can exhaust the other's memory.

#include "cluster/nodes/control_tunnel.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/links/frame.hpp"

namespace troupe::nodes::control_tunnel_test {
namespace {

using bytes = std::vector<std::byte>;

constexpr std::size_t header_bytes = 32;

/// Returns a BASP header that announces a payload of this length.
bytes header_of(std::uint64_t payload) {
  bytes header(header_bytes);
  for (std::size_t at = 0; at < 4; ++at) header[7 - at] = static_cast<std::byte>(payload >> 8 * at);
  return header;
}

bytes message_of(std::uint64_t payload) {
  bytes all = header_of(payload);
  all.resize(header_bytes + payload, std::byte{7});
  return all;
}

/// A link that delivers what the test passes in, and counts what is sent.
class told_link final : public links::link {
 public:
  void start(callbacks what) override { callbacks_ = std::move(what); }
  void send(std::uint8_t, std::vector<links::piece> body, bool) override {
    for (const links::piece& one : body) sent += one.size;
  }
  void flush() override {}
  void pause_reading(bool pause) override { paused = pause; }
  void close() override { closed = true; }
  std::uint64_t queued_bytes() const override { return 0; }
  const links::hello& peer() const override { return peer_; }
  const std::string& peer_certificate() const override { return certificate_; }
  links::endpoint local_address() const override { return {}; }
  links::endpoint remote_address() const override { return {}; }

  void receive(std::span<const std::byte> body) {
    auto memory = links::frame_memory(body.size());
    std::ranges::copy(body, memory.get());
    callbacks_.on_frame({first_user_kind, std::move(memory), body.size()});
  }

  /// Drops its callbacks, as a link does when it ends.
  void forget() { callbacks_ = {}; }

  std::uint64_t sent = 0;
  bool paused = false;
  bool closed = false;

 private:
  callbacks callbacks_;
  links::hello peer_;
  std::string certificate_;
};

class ControlTunnel : public testing::Test {
 protected:
  static constexpr std::uint64_t limit = 20'000'000;

  ControlTunnel() {
    socket_ = tunnel_->open().value();
    tunnel_->start([this](const fault* why) { fault_ = why != nullptr ? why->message : "goodbye"; });
    io_.poll();
  }
  ~ControlTunnel() override {
    tunnel_->close();
    settle();
    wire_->forget();
    ::close(socket_);
  }

  void settle() {
    io_.restart();
    io_.poll();
  }

  /// Reads up to `most` available bytes, as CAF would.
  std::size_t read(std::size_t most) {
    std::size_t got = 0;
    bytes into(std::size_t{64} << 10);
    for (ssize_t size = 1; size > 0 && got < most; settle()) {
      size = ::recv(socket_, into.data(), std::min(into.size(), most - got), MSG_DONTWAIT);
      got += static_cast<std::size_t>(std::max<ssize_t>(size, 0));
    }
    return got;
  }

  /// Writes all bytes, as CAF would.
  void write(std::span<const std::byte> all) {
    while (!all.empty() && !wire_->closed) {
      const ssize_t size = ::send(socket_, all.data(), all.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (size > 0) all = all.subspan(static_cast<std::size_t>(size));
      settle();
    }
  }

  boost::asio::io_context io_;
  std::shared_ptr<told_link> wire_ = std::make_shared<told_link>();
  std::shared_ptr<control_tunnel> tunnel_ = std::make_shared<control_tunnel>(io_, wire_, limit);
  int socket_ = -1;
  std::optional<std::string> fault_;
};

TEST_F(ControlTunnel, PassesMessagesHoweverTheirBytesAreCut) {
  bytes all;
  for (const std::uint64_t payload : {0, 1, 31, 32, 33, 1000})
    std::ranges::copy(message_of(payload), std::back_inserter(all));
  for (const std::size_t portion : {1, 7, 32, 1000, 5000}) {
    for (std::span<const std::byte> rest(all); !rest.empty(); rest = rest.subspan(std::min(portion, rest.size())))
      wire_->receive(rest.first(std::min(portion, rest.size())));
    settle();
    EXPECT_EQ(read(2 * all.size()), all.size()) << portion;
  }
  EXPECT_FALSE(fault_) << *fault_;
}

TEST_F(ControlTunnel, LetsNoMessageOverTheLimitGetToCaf) {
  wire_->receive(message_of(5));
  wire_->receive(header_of(limit));  // the longest that is allowed
  for (std::uint64_t left = limit; left > 0;) {
    const bytes some(std::min<std::uint64_t>(left, std::uint64_t{1} << 20));
    wire_->receive(some);
    left -= some.size();
    settle();
    read(some.size() + header_bytes + 5 + header_bytes);
  }
  EXPECT_FALSE(fault_) << *fault_;
  const bytes header = header_of(limit + 1);
  wire_->receive(std::span(header).first(20));
  settle();
  EXPECT_EQ(read(1000), 20U);
  EXPECT_FALSE(wire_->closed);
  wire_->receive(std::span(header).subspan(20));
  settle();
  EXPECT_EQ(read(1000), 0U) << "CAF would have allocated it";
  EXPECT_TRUE(wire_->closed);
  EXPECT_EQ(fault_, fmt::format("it announced a message of {} bytes, the limit is {}", limit + 1, limit));
}

TEST_F(ControlTunnel, SendsNoMessageOverTheLimit) {
  write(message_of(100));
  EXPECT_EQ(wire_->sent, header_bytes + 100);
  write(header_of(std::uint64_t{3} << 30));
  EXPECT_EQ(wire_->sent, header_bytes + 100);
  EXPECT_TRUE(wire_->closed);
  ASSERT_TRUE(fault_);
  EXPECT_EQ(fault_->find("a message of 3221225472 bytes was to be sent to it, the limit is 20000000; "), 0U) << *fault_;
}

TEST_F(ControlTunnel, ReadsNoFurtherThanCafCanFollow) {
  constexpr std::uint64_t length = 16'000'000;
  constexpr std::uint64_t portion = control_tunnel::portion;
  wire_->receive(header_of(length));
  const bytes some(portion);
  std::uint64_t said = 0;
  std::uint64_t read_back = 0;
  std::uint64_t held_most = 0;
  while (said + portion <= length) {
    // The peer sends as much as it can; CAF sometimes reads a little.
    while (said + portion <= length && !wire_->paused) {
      wire_->receive(some);
      settle();
      said += portion;
      held_most = std::max(held_most, said + header_bytes - read_back);
    }
    read_back += read(portion);
  }
  EXPECT_LT(held_most, std::uint64_t{6} << 20) << "what waits for CAF, and the socket's own buffer";
  EXPECT_GT(held_most, std::uint64_t{4} << 20) << "it did not come to that";
  while (const std::size_t more = read(length)) read_back += more;
  EXPECT_EQ(read_back, said + header_bytes) << "nothing is lost";
  EXPECT_FALSE(wire_->paused);
  EXPECT_FALSE(fault_) << *fault_;
}

}  // namespace
}  // namespace troupe::nodes::control_tunnel_test
