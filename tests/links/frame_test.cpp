// Frames of bytes that arrive in arbitrary parts.

#include "cluster/links/frame.hpp"
#include "base/digest.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "cluster/links/bytes.hpp"
#include "cluster/links/frame_reader.hpp"
#include "tests/links/stage.hpp"

namespace troupe::links::frame_test {
namespace {

const link_limits limits{
    .frame_bytes_max = 1'000'000, .dead_after = std::chrono::seconds(5), .digests = digest_use::always};

std::vector<std::byte> on_the_wire(std::uint8_t kind, const std::string& body) {
  std::vector<std::byte> bytes;
  append(bytes, image_of({kind, body.size(), digest_of({to_piece(body)})}));
  append(bytes, std::as_bytes(std::span(body)));
  return bytes;
}

std::string some_text(std::size_t size) {
  std::string text(size, ' ');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + (i * 7 + i / 26) % 26);
  return text;
}

/// Feeds `bytes` in parts of at most `part`, and returns the bodies, followed by the error, if any.
std::vector<std::string> read_all(std::span<const std::byte> bytes, std::size_t part, const link_limits& with) {
  frame_reader reader(with);
  std::vector<std::string> bodies;
  while (!bytes.empty()) {
    const auto space = reader.space();
    const std::size_t count = std::min({part, space.size(), bytes.size()});
    std::memcpy(space.data(), bytes.data(), count);
    bytes = bytes.subspan(count);
    reader.commit(count);
    for (;;) {
      auto next = reader.next();
      if (!next) {
        bodies.push_back(next.error().message);
        return bodies;
      }
      if (!*next) break;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*next)->memory.get()) % 64, 0U);
      bodies.push_back(to_text(**next));
    }
  }
  return bodies;
}

std::string read_error(std::span<const std::byte> bytes) {
  const auto found = read_all(bytes, bytes.size(), limits);
  return found.empty() ? "" : found.back();
}

TEST(FrameTest, FramesAreTheSameHoweverTheBytesAreCut) {
  std::vector<std::byte> bytes;
  std::vector<std::string> bodies;
  constexpr std::size_t buffer = 64 * 1024;
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100}, buffer - 25, buffer - 24, buffer - 23,
                           buffer, std::size_t{3}, std::size_t{700'000}, std::size_t{0}, std::size_t{5}}) {
    bodies.push_back(some_text(size));
    append(bytes, on_the_wire(2, bodies.back()));
  }
  for (std::size_t part : {std::size_t{1}, std::size_t{23}, std::size_t{24}, std::size_t{4095}, buffer, bytes.size()})
    EXPECT_EQ(read_all(bytes, part, limits), bodies) << part;
}

TEST(FrameTest, AHeaderThatIsNoneIsRefused) {
  auto bytes = on_the_wire(2, "body");
  for (std::size_t at : {0, 1, 2, 3}) {
    auto other = bytes;
    other[at] ^= std::byte{0x20};
    EXPECT_NE(read_error(other).find("must begin with"), std::string::npos) << at;
  }
  for (std::size_t at : {5, 6, 7}) {
    auto other = bytes;
    other[at] = std::byte{1};
    EXPECT_NE(read_error(other).find("does not know"), std::string::npos) << at;
  }
}

TEST(FrameTest, ALengthOverTheLimitIsRefusedByTheHeaderAlone) {
  const auto header = image_of({2, std::uint64_t{4} << 30, 0});
  EXPECT_EQ(read_error(header), "it announced a frame of 4294967296 bytes, the limit is 1000000");
  EXPECT_EQ(read_error(image_of({2, ~std::uint64_t{0}, 0})),
            "it announced a frame of 18446744073709551615 bytes, the limit is 1000000");
  EXPECT_EQ(read_error(image_of({2, 1'000'000, 0})), "");
}

TEST(FrameTest, PingsAndGoodbyesHaveNoBody) {
  EXPECT_EQ(read_error(on_the_wire(0, "x")), "it sent a ping of 1 bytes, it must have none");
  EXPECT_EQ(read_error(on_the_wire(1, "x")), "it sent a goodbye of 1 bytes, it must have none");
}

TEST(FrameTest, EveryFlippedBitOfABodyShowsUnlessDigestsAreOff) {
  for (std::size_t size : {std::size_t{9}, std::size_t{100'000}}) {
    const auto bytes = on_the_wire(2, some_text(size));
    for (std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      auto damaged = bytes;
      damaged[frame_header_bytes + at] ^= std::byte{4};
      EXPECT_NE(read_error(damaged).find("do not match their digest"), std::string::npos) << size << " " << at;
      auto unchecked = limits;
      unchecked.digests = digest_use::never;
      EXPECT_EQ(read_all(damaged, 1000, unchecked).back().size(), size);
    }
  }
}

TEST(FrameTest, WhatWasSentWithoutADigestIsTakenAsItIs) {
  for (std::size_t size : {std::size_t{9}, std::size_t{100'000}}) {
    const std::string text = some_text(size);
    std::vector<std::byte> bytes;
    append(bytes, image_of({2, size, 0}));
    append(bytes, std::as_bytes(std::span(text)));
    EXPECT_EQ(read_all(bytes, 1000, limits).back(), text);
  }
}

TEST(FrameTest, TheDigestOfPiecesIsThatOfTheWhole) {
  const std::string text = some_text(10'000);
  const auto whole = digest_of({to_piece(text)});
  EXPECT_EQ(digest_of({to_piece(text.substr(0, 1)), to_piece(""), to_piece(text.substr(1))}), whole);
  running_digest running;
  running.add(std::as_bytes(std::span(text)).first(4097));
  running.add(std::as_bytes(std::span(text)).subspan(4097));
  EXPECT_EQ(running.value(), whole);
}

}  // namespace
}  // namespace troupe::links::frame_test
