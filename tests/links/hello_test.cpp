#include "cluster/links/hello.hpp"

#include <gtest/gtest.h>

#include <span>
#include <string>

namespace troupe::links::hello_test {
namespace {

const hello example = {
    {"role", "trainer"}, {"version", "0.2.0"}, {"empty", ""}, {"role", "again"}, {"bytes", std::string("a\0\xff", 3)}};

TEST(HelloTest, AllItemsSurviveInOrder) {
  EXPECT_EQ(decode_hello(encode(example)), example);
  EXPECT_EQ(decode_hello({}), hello{});
  const hello longest = {{"name", std::string(65535, 'x')}};
  EXPECT_LE(encode({{"n", std::string(65000, 'x')}}).size(), hello_bytes_max);
  EXPECT_GT(encode(longest).size(), hello_bytes_max);
}

TEST(HelloTest, TheFirstItemOfANameIsFound) {
  EXPECT_EQ(find_item(example, "role"), "trainer");
  EXPECT_EQ(find_item(example, "empty"), "");
  EXPECT_FALSE(find_item(example, "none"));
}

TEST(HelloTest, NoTruncationIsTakenForTheWhole) {
  const auto bytes = encode(example);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto part = decode_hello(std::span(bytes).first(size));
    // A hello cut between two items is valid, with fewer items.
    if (part) {
      EXPECT_LT(part->size(), example.size()) << size;
      EXPECT_EQ(encode(*part).size(), size);
    }
  }
}

TEST(HelloTest, WhatIsLongerThanTheLimitIsRefused) {
  hello items;
  while (encode(items).size() <= hello_bytes_max) items.emplace_back("name", std::string(1000, 'x'));
  EXPECT_FALSE(decode_hello(encode(items)));
  items.pop_back();
  EXPECT_EQ(decode_hello(encode(items)), items);
}

}  // namespace
}  // namespace troupe::links::hello_test
