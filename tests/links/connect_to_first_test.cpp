// Goal: of a name's addresses, the first that answers is used, whatever the others do. Method: addresses of this
// machine in place of a name's; one that never answers is a socket whose queue is full.

#include "cluster/links/connect_to_first.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/socket_address.hpp"
#include "tests/links/raw_socket.hpp"
#include "tests/links/stage.hpp"
#include "tests/value_of.hpp"

namespace troupe::links::connect_to_first_test {
namespace {

using addresses = std::vector<asio::ip::tcp::endpoint>;

asio::ip::tcp::endpoint at(const endpoint& where) { return {asio::ip::make_address(where.host), where.port}; }

/// A local port where connections are never answered, as if packets were lost: the system drops new ones once
/// `listen`'s backlog is full.
class silent_address {
 public:
  silent_address() : socket_(listen_at_all({socket_address::parse("127.0.0.1", 0).value()}).value()) {
    ::listen(socket_.sockets[0].number(), 0);
    waiting_.push_back(raw_socket::to(where()));
  }

  endpoint where() const { return {"127.0.0.1", socket_.addresses[0].port()}; }

 private:
  listening_sockets socket_;
  std::vector<raw_socket> waiting_;
};

/// A port at which nothing listens.
endpoint closed_address() {
  const auto was_open = listen_at_all({socket_address::parse("127.0.0.1", 0).value()}).value();
  return {"127.0.0.1", was_open.addresses[0].port()};
}

class ConnectToFirst : public LinkStage {
 protected:
  result<link_ptr> connected_to(const addresses& all, std::chrono::milliseconds time = std::chrono::minutes(1)) {
    auto outcome = std::make_shared<std::optional<result<link_ptr>>>();
    connect_to_first(io, {"trainhost", 7000}, all, ours_, {{"role", "connector"}}, limits, {.time = time},
                     [outcome](result<link_ptr> result) { *outcome = std::move(result); });
    EXPECT_TRUE(run_until(io, [&] { return outcome->has_value(); }));
    return outcome->has_value() ? **outcome : failure(fault_kind::lost, "the test gave up");
  }

  const credentials ours_{good_token};
};

TEST_F(ConnectToFirst, AnAddressThatIsSilentDoesNotHoldUpTheNext) {
  const silent_address silent;
  const endpoint good = listen(ours_);
  const auto made = value_of(connected_to({at(silent.where()), at(good)}));
  EXPECT_EQ(made->remote_address(), good);
  ASSERT_TRUE(wait([&] { return accepted.size() == 1; }));
}

TEST_F(ConnectToFirst, AnAddressWhereNobodyListensDoesNotEither) {
  const endpoint good = listen(ours_);
  const auto made = value_of(connected_to({at(closed_address()), at(good), at(closed_address())}));
  EXPECT_EQ(made->remote_address(), good);
}

TEST_F(ConnectToFirst, TheFaultHasWhatEachAddressAnswered) {
  const silent_address silent;
  const endpoint closed = closed_address();
  const auto none = connected_to({at(silent.where()), at(closed)}, std::chrono::milliseconds(300));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, fault_kind::unreachable);
  EXPECT_EQ(none.error().message, "trainhost:7000: none of its 2 addresses can be reached (" +
                                      to_string(silent.where()) + ": no answer; " + to_string(closed) +
                                      ": Connection refused) within 0.3 s");
  const endpoint another = closed_address();
  const auto refused = connected_to({at(closed), at(another)});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "trainhost:7000: none of its 2 addresses can be reached (" + to_string(closed) +
                                         ": Connection refused; " + to_string(another) +
                                         ": Connection refused); is the other side started?");
}

// Each address gets a share of the time, however short it is.
TEST_F(ConnectToFirst, AllAddressesAreTriedInTime) {
  const silent_address first;
  const silent_address second;
  const silent_address third;
  const auto none =
      connected_to({at(first.where()), at(second.where()), at(third.where())}, std::chrono::milliseconds(900));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message.find("not tried"), std::string::npos) << none.error().message;
}

// Like a connector that has reached two addresses of a name at once and drops the second; or like a load balancer's
// health check.
TEST_F(ConnectToFirst, WhoLeavesWithoutSayingAnythingIsNotTakenForAnIntruder) {
  const endpoint good = listen(ours_);
  {
    raw_socket leaves = raw_socket::to(good);
    ASSERT_EQ(::shutdown(leaves.descriptor(), SHUT_WR), 0);
    ASSERT_TRUE(wait([&] { return !leaves.hear(); }));
  }
  ASSERT_TRUE(connected(good, ours_));
  ASSERT_TRUE(wait([&] { return accepted.size() == 1; }));
  EXPECT_TRUE(rejected.empty());
}

TEST(Addresses, OfBothFamiliesAlternate) {
  const auto of = [](const std::vector<const char*>& hosts) {
    addresses all;
    for (const char* host : hosts) all.push_back({asio::ip::make_address(host), 7});
    return all;
  };
  EXPECT_EQ(alternated(of({"::1", "::2", "::3", "10.0.0.1", "10.0.0.2"})),
            of({"::1", "10.0.0.1", "::2", "10.0.0.2", "::3"}));
  EXPECT_EQ(alternated(of({"10.0.0.1", "10.0.0.2", "::1"})), of({"10.0.0.1", "::1", "10.0.0.2"}));
  EXPECT_EQ(alternated({}), addresses());
}

}  // namespace
}  // namespace troupe::links::connect_to_first_test
