#include "base/socket_address.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/stop_request.hpp"
#include "tests/value_of.hpp"

namespace troupe {
namespace {

socket_address at(const char* host, std::uint16_t port = 0) { return socket_address::parse(host, port).value(); }

TEST(SocketAddress, IsReadAndWritten) {
  EXPECT_EQ(to_string(at("127.0.0.1", 7000)), "127.0.0.1:7000");
  EXPECT_EQ(to_string(at("::1", 7000)), "[::1]:7000");
  EXPECT_FALSE(socket_address::parse("localhost", 7000));
  socket_address moved = at("::1", 1);
  moved.set_port(2);
  EXPECT_EQ(moved.port(), 2);
  EXPECT_NE(moved, at("::1", 1));
  EXPECT_EQ(moved, at("::1", 2));
}

TEST(NameLookup, FindsEachAddressOfThisMachinesNameOnce) {
  const auto found = value_of(addresses_of("localhost", 7000, address_use::connect));
  for (const socket_address& one : found) {
    EXPECT_EQ(one.port(), 7000);
    EXPECT_EQ(std::ranges::count(found, one), 1);
  }
}

TEST(NameLookup, EndsEarlyWhenAStopIsAskedFor) {
  stop_request wish;
  wish.request();
  const stop_scope heeds(wish);
  // A name that is already an address needs no wait.
  EXPECT_TRUE(addresses_of("127.0.0.1", 0, address_use::listen));
}

TEST(ListeningSockets, ListenAtAllAddressesWithOnePort) {
  const auto made = value_of(listen_at_all({at("127.0.0.1"), at("127.0.0.2"), at("127.0.0.3")}));
  ASSERT_EQ(made.sockets.size(), 3u);
  const std::uint16_t port = made.addresses[0].port();
  EXPECT_NE(port, 0);
  EXPECT_EQ(made.addresses, (std::vector{at("127.0.0.1", port), at("127.0.0.2", port), at("127.0.0.3", port)}));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(address_of(made.sockets[i]), made.addresses[i]);
}

TEST(ListeningSockets, OneThatIsTakenIsNamedAndNotPassedOver) {
  const auto squatter = listen_at_all({at("127.0.0.2")});
  ASSERT_TRUE(squatter);
  const std::uint16_t port = squatter->addresses[0].port();
  const auto taken = listen_at_all({at("127.0.0.1", port), at("127.0.0.2", port)});
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().kind, fault_kind::address_in_use);
  EXPECT_TRUE(taken.error().message.starts_with(to_string(squatter->addresses[0]) + ": the port is in use"))
      << taken.error().message;
}

TEST(ListeningSockets, OneThatThisMachineLacksIsNamedAndLeftOut) {
  const auto made = value_of(listen_at_all({at("192.0.2.1"), at("127.0.0.1")}));
  ASSERT_EQ(made.addresses.size(), 1u);
  EXPECT_EQ(made.addresses[0], at("127.0.0.1", made.addresses[0].port()));
  ASSERT_EQ(made.left_out.size(), 1u);
  EXPECT_TRUE(made.left_out[0].starts_with("192.0.2.1:0: ")) << made.left_out[0];
  const auto none = listen_at_all({at("192.0.2.1", 7), at("203.0.113.1", 7)});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, fault_kind::input);
  for (const char* address : {"192.0.2.1:7", "203.0.113.1:7"})
    EXPECT_NE(none.error().message.find(address), std::string::npos) << none.error().message;
}

}  // namespace
}  // namespace troupe
