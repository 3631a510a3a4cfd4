#include "base/digest.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace troupe::digest_test {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// The expected values are the output of xxhsum -H3 and xxh128sum.
TEST(Digest, IsXxh3) {
  EXPECT_EQ(digest_of({}), 0x2d06800538d394c2U);
  EXPECT_EQ(running_digest().hex(), "99aa06d3014798d86001c324468d497f");
}

TEST(Digest, DoesNotDependOnHowBytesAreCut) {
  const std::string text(1000, 'x');
  for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{255}, std::size_t{1000}}) {
    running_digest pieces;
    pieces.add(bytes_of(text).first(cut));
    pieces.add(bytes_of(text).subspan(cut));
    EXPECT_EQ(pieces.value(), digest_of(bytes_of(text)));
    pieces.restart();
    EXPECT_EQ(pieces.value(), digest_of({}));
  }
}

TEST(Digest, FindsAChangedBit) {
  std::string text(100, '\0');
  const std::uint64_t before = digest_of(bytes_of(text));
  running_digest of_before;
  of_before.add(bytes_of(text));
  text[57] = 4;
  EXPECT_NE(digest_of(bytes_of(text)), before);
  running_digest of_after;
  of_after.add(bytes_of(text));
  EXPECT_NE(of_after.hex(), of_before.hex());
}

}  // namespace
}  // namespace troupe::digest_test
