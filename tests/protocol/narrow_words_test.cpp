// Row numbers and offsets travel between hosts without the bytes that are zero in all of them.

#include "protocol/narrow_words.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "protocol/errors.hpp"
#include "protocol/message_frame.hpp"
#include "tests/protocol/samples.hpp"

namespace troupe::protocol::narrow_words_test {
namespace {

constexpr std::size_t many = 1000;
const envelope somewhere{1, 5};

/// Zeros, then `last`: their width follows only from reading all of them.
std::vector<std::int64_t> zeros_and(std::int64_t last) {
  std::vector<std::int64_t> numbers(many);
  numbers.back() = last;
  return numbers;
}

std::size_t width_of_numbers(std::vector<std::int64_t> numbers) { return width_of(msg::blob::own(std::move(numbers))); }

msg::blob joined(const std::vector<msg::blob>& parts) {
  std::vector<std::byte> all;
  for (const msg::blob& part : parts) all.insert(all.end(), part.data(), part.data() + part.size());
  return msg::blob::own(std::move(all));
}

msg::blob body_of(const caf::message& content, const frame_rules& rules) {
  return joined(*to_frame(somewhere, content, rules));
}

caf::message lookup_of(std::vector<std::int64_t> indices) {
  return caf::make_message(
      msg::lookup{.head = some_header(), .tables = {{5, msg::blob::own(std::move(indices)), {}, {}}}});
}

const msg::bag_lookup& table_of(const caf::message& lookup) { return lookup.get_as<msg::lookup>(0).tables[0]; }

TEST(NarrowWords, AreAsWideAsTheLargest) {
  EXPECT_EQ(width_of_numbers(zeros_and(0)), 2u) << "at most four times as many bytes are made of those that came";
  EXPECT_EQ(width_of_numbers(zeros_and(0xffff)), 2u);
  EXPECT_EQ(width_of_numbers(zeros_and(0x10000)), 3u);
  EXPECT_EQ(width_of_numbers(zeros_and(0xffffff)), 3u);
  EXPECT_EQ(width_of_numbers(zeros_and(0x1000000)), 4u);
  EXPECT_EQ(width_of_numbers(zeros_and(0xffffffff)), 4u);
  EXPECT_EQ(width_of_numbers(zeros_and(0x100000000)), 8u);
  EXPECT_EQ(width_of_numbers(zeros_and(-1)), 8u);
}

TEST(NarrowWords, AreNotMadeOfFewBytesNorOfPartsOfWords) {
  EXPECT_EQ(width_of(msg::blob()), 8u);
  EXPECT_EQ(width_of_numbers(std::vector<std::int64_t>(127, 1)), 8u);
  EXPECT_EQ(width_of_numbers(std::vector<std::int64_t>(128, 1)), 2u);
  EXPECT_EQ(width_of(msg::blob::own(std::vector<float>(1001, 0.f))), 8u);
  EXPECT_EQ(width_of(msg::blob::own(std::vector<float>(1000, 1.f))), 8u);
  EXPECT_EQ(width_of(msg::blob::own(std::vector<float>(1001, 0.f)).part(4, 4000)), 8u) << "words lie at multiples of 8";
}

TEST(NarrowWords, ArriveAsTheyWere) {
  for (const std::int64_t most : {std::int64_t{0xfedc}, std::int64_t{0xfedcba}, std::int64_t{0xfedcba98},
                                  std::numeric_limits<std::int64_t>::max()}) {
    std::vector<std::int64_t> numbers(many);
    for (std::size_t i = 0; i < many; ++i) numbers[i] = most - static_cast<std::int64_t>(i);
    const msg::blob body = body_of(lookup_of(numbers), {.narrows = true});
    const auto read = from_frame(body);
    ASSERT_TRUE(read) << describe(read.error());
    EXPECT_EQ(table_of(read->second).indices, msg::blob::own(numbers)) << most;
  }
}

TEST(NarrowWords, TravelWithTheirBytesOnly) {
  const caf::message lookup = lookup_of(zeros_and(99'999));
  EXPECT_EQ(body_of(lookup, {}).size() - body_of(lookup, {.narrows = true}).size(), many * 5);
}

TEST(NarrowWords, AreKeptWhole) {
  sent_blobs sent;
  kept_blobs kept;
  const caf::message lookup = lookup_of(zeros_and(70'000));
  msg::gradient gradient;
  gradient.head = some_header();
  gradient.tables.push_back({5, table_of(lookup).indices, {}, {}, some_tensor()});
  const frame_rules rules{.sent = &sent, .narrows = true};
  ASSERT_TRUE(from_frame(body_of(lookup, rules), &kept));
  const msg::blob second = body_of(caf::make_message(gradient), rules);
  EXPECT_LT(second.size(), 300u);
  const auto read = from_frame(second, &kept);
  ASSERT_TRUE(read) << describe(read.error());
  EXPECT_EQ(read->second.get_as<msg::gradient>(0).tables[0].indices, table_of(lookup).indices);
}

/// The number under which the receiver keeps a blob is reused only once the frame with that blob has been sent.
TEST(NarrowWords, LiveUntilTheirFrameIsSent) {
  sent_blobs sent;
  kept_blobs kept;
  const frame_rules rules{.sent = &sent, .narrows = true};
  auto waiting = to_frame(somewhere, lookup_of(zeros_and(70'000)), rules);
  const msg::blob second = body_of(lookup_of(zeros_and(80'000)), rules);
  ASSERT_TRUE(from_frame(joined(*waiting), &kept));
  waiting.reset();
  const auto read = from_frame(second, &kept);
  ASSERT_TRUE(read) << describe(read.error());
  EXPECT_EQ(kept.size(), 2u);
}

/// The 64-bit word that describes the first blob follows the 24 bytes of the head.
TEST(NarrowWords, OfAnotherWidthOrNotWholeAreRefused) {
  const msg::blob body = body_of(lookup_of(zeros_and(70'000)), {.narrows = true});
  const auto fault_with = [&](std::uint64_t word) {
    std::vector<std::byte> bytes(body.data(), body.data() + body.size());
    std::memcpy(bytes.data() + 24, &word, sizeof word);
    const auto read = from_frame(msg::blob::own(std::move(bytes)));
    return read ? std::string("it was taken") : describe(read.error());
  };
  const auto entry = [](std::uint64_t width, std::uint64_t size) { return width << 58 | size; };
  ASSERT_EQ(fault_with(entry(3, many * 8)), "it was taken");
  for (const std::uint64_t width : {1, 5, 6, 7, 8, 15})
    EXPECT_NE(fault_with(entry(width, many * 8)).find("an unknown width"), std::string::npos) << width;
  for (const std::uint64_t wrong : {entry(3, many * 8 + 1), entry(4, many * 8), entry(3, msg::blob::max_bytes * 4)})
    EXPECT_NE(fault_with(wrong).find("shorter than its words, or ends within one"), std::string::npos);
  EXPECT_NE(fault_with(entry(2, many * 8)).find("longer than its parts"), std::string::npos);
}

}  // namespace
}  // namespace troupe::protocol::narrow_words_test
