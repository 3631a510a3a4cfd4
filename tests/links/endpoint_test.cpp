#include "cluster/links/endpoint.hpp"

#include <gtest/gtest.h>

namespace troupe::links::endpoint_test {
namespace {

TEST(EndpointTest, HostAndPortAreReadAndWrittenBack) {
  for (const char* text : {"localhost:7000", "127.0.0.1:0", "worker-3.cluster_a.example:65535", "[::1]:7000",
                           "[fe80::1%eth0]:7", "0.0.0.0:7000", "[::]:1"}) {
    const auto where = parse_endpoint(text);
    ASSERT_TRUE(where) << text;
    EXPECT_EQ(to_string(*where), text);
  }
  EXPECT_EQ(parse_endpoint("[::1]:7000"), (endpoint{"::1", 7000}));
}

TEST(EndpointTest, WhatIsNoHostAndPortIsRefused) {
  for (const char* text : {"",
                           ":",
                           "localhost",
                           "localhost:",
                           ":7000",
                           "localhost:65536",
                           "localhost:-1",
                           "localhost:+1",
                           "localhost: 1",
                           "localhost:1 ",
                           "localhost:7o",
                           "localhost:000001",
                           "::1:7000",
                           "[::1]7000",
                           "[::1]",
                           "[localhost]:1",
                           "[127.0.0.1]:1",
                           "a b:1",
                           "a/b:1",
                           "http://a:1",
                           "-a:1",
                           "[::1%]:1",
                           "[::1%a b]:1",
                           "[]:1"})
    EXPECT_FALSE(parse_endpoint(text)) << text;
  EXPECT_FALSE(parse_endpoint(std::string(256, 'a') + ":1"));
  EXPECT_FALSE(parse_endpoint(std::string("a\0b:1", 5)));
}

TEST(EndpointTest, OnlyThisMachinesOwnAddressesAreLoopback) {
  for (const char* host : {"localhost", "LocalHost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"", "0.0.0.0", "::", "128.0.0.1", "localhost.example", "127.0.0.1.example", "10.0.0.1",
                           "::ffff:10.0.0.1", "local"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

}  // namespace
}  // namespace troupe::links::endpoint_test
