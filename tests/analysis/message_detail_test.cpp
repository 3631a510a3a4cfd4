#include "trace/analysis/message_list.hpp"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cstdint>
#include <limits>
#include <vector>

#include "trace/analysis/contents.hpp"

namespace troupe::analysis::message_detail_test {
namespace {

template <class T>
trace::content_part part_of(const std::string& type, const std::vector<T>& numbers) {
  const std::string bytes(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
  return {"grad", type, numbers.size(), 1, 0xabc, bytes};
}

TEST(Payload, CountsAndMeasuresNumbers) {
  constexpr float none = std::numeric_limits<float>::quiet_NaN();
  const auto seen = peek(part_of<float>("float32", {1, -3, 0, none, 0, 6, none}));
  EXPECT_EQ(seen.at("numbers"), 7);
  EXPECT_EQ(seen.at("nan"), 2);
  EXPECT_EQ(seen.at("zero"), 2);
  EXPECT_EQ(seen.at("inf"), 0);
  EXPECT_EQ(seen.at("min"), -3.0);
  EXPECT_EQ(seen.at("max"), 6.0);
  EXPECT_EQ(seen.at("abs_max"), 6.0);
  EXPECT_EQ(seen.at("mean"), 4.0 / 5);
  EXPECT_EQ(seen.at("digest"), "0000000000000abc");
  EXPECT_EQ(boost::json::serialize(seen.at("first")), R"([1E0,-3E0,0E0,"NaN",0E0,6E0,"NaN"])");
}

TEST(Payload, HasNoMeanOfNothing) {
  const auto seen = peek(part_of<double>("float64", {std::numeric_limits<double>::quiet_NaN()}));
  EXPECT_EQ(seen.at("nan"), 1);
  EXPECT_FALSE(seen.contains("min"));
  EXPECT_FALSE(seen.contains("mean"));
}

TEST(Payload, CountsInfinities) {
  const double infinite = std::numeric_limits<double>::infinity();
  const auto seen = peek(part_of<double>("float64", {infinite, 1, -infinite}));
  EXPECT_EQ(seen.at("inf"), 2);
  EXPECT_EQ(seen.at("min"), "-Infinity");
  EXPECT_EQ(seen.at("max"), "Infinity");
}

TEST(Payload, ReadsEveryTypeOfNumber) {
  EXPECT_EQ(peek(part_of<std::int64_t>("int64", {-5, 7})).at("min"), -5.0);
  EXPECT_EQ(peek(part_of<std::uint64_t>("uint64", {5, 7})).at("max"), 7.0);
  // 1, -2, the smallest positive number, infinity
  const auto half = peek(part_of<std::uint16_t>("float16", {0x3c00, 0xc000, 0x0001, 0x7c00}));
  EXPECT_EQ(half.at("min"), -2.0);
  EXPECT_EQ(half.at("inf"), 1);
  EXPECT_EQ(half.at("first").as_array().at(2), 0x1p-24);
  const auto brain = peek(part_of<std::uint16_t>("bfloat16", {0x3f80, 0xc040, 0x7fc0}));  // 1, -3, NaN
  EXPECT_EQ(brain.at("min"), -3.0);
  EXPECT_EQ(brain.at("max"), 1.0);
  EXPECT_EQ(brain.at("nan"), 1);
}

TEST(Payload, ShowsDigestsWhereThereAreNoBytes) {
  const auto seen = peek({"rows", "float32", 3, 2, 1, ""});
  EXPECT_EQ(seen.at("rows"), 3);
  EXPECT_EQ(seen.at("has_bytes"), false);
  EXPECT_FALSE(seen.contains("numbers"));
}

}  // namespace
}  // namespace troupe::analysis::message_detail_test
