#include "model/table_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace troupe {
namespace {

std::uint64_t address_of(const table_memory& memory) { return reinterpret_cast<std::uint64_t>(memory.bytes().data()); }

TEST(table_memory, is_as_big_as_asked_and_every_byte_can_be_written) {
  for (const std::size_t size : {1UL, 63UL, 64UL, 1000UL, (4UL << 20) - 1, 4UL << 20, (6UL << 20) + 12}) {
    const table_memory memory(size);
    ASSERT_EQ(memory.bytes().size(), size);
    std::memset(memory.bytes().data(), 0x5a, size);
    EXPECT_EQ(memory.bytes()[size - 1], std::byte{0x5a});
  }
}

TEST(table_memory, begins_on_a_cache_line_and_when_large_on_a_huge_page) {
  EXPECT_EQ(address_of(table_memory(100)) % 64, 0U);
  EXPECT_EQ(address_of(table_memory((4UL << 20) - 1)) % 64, 0U);
  EXPECT_EQ(address_of(table_memory(4UL << 20)) % (2UL << 20), 0U);
  EXPECT_EQ(address_of(table_memory((9UL << 20) + 3)) % (2UL << 20), 0U);
}

TEST(table_memory, of_nothing_is_nothing) {
  EXPECT_TRUE(table_memory().bytes().empty());
  EXPECT_EQ(address_of(table_memory(0)), 0U);
}

TEST(table_memory, moves_with_its_bytes) {
  table_memory one(100);
  one.bytes()[99] = std::byte{7};
  const auto address = address_of(one);
  table_memory other;
  other = std::move(one);
  EXPECT_EQ(address_of(other), address);
  EXPECT_EQ(other.bytes()[99], std::byte{7});
}

TEST(table_memory, too_much_throws) {
  EXPECT_THROW(table_memory(std::numeric_limits<std::size_t>::max()), std::bad_alloc);
}

}  // namespace
}  // namespace troupe
