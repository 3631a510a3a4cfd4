#include "base/host_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <new>

namespace troupe::host_memory_test {
namespace {

std::uint64_t address_of_new(std::size_t size) { return reinterpret_cast<std::uint64_t>(allocate_on_host(size).get()); }

TEST(HostMemory, EveryByteCanBeWritten) {
  for (const std::size_t size : {1UL, 63UL, 64UL, 1000UL, (4UL << 20) - 1, 4UL << 20, (6UL << 20) + 12}) {
    const auto memory = allocate_on_host(size);
    std::memset(memory.get(), 0x5a, size);
    EXPECT_EQ(memory.get()[size - 1], std::byte{0x5a});
  }
}

TEST(HostMemory, BeginsOnACacheLineAndWhenLargeOnAHugePage) {
  EXPECT_EQ(address_of_new(100) % 64, 0U);
  EXPECT_EQ(address_of_new((4UL << 20) - 1) % 64, 0U);
  EXPECT_EQ(address_of_new(4UL << 20) % (2UL << 20), 0U);
  EXPECT_EQ(address_of_new((9UL << 20) + 3) % (2UL << 20), 0U);
}

TEST(HostMemory, OfNothingIsNothing) { EXPECT_EQ(allocate_on_host(0), nullptr); }

TEST(HostMemory, TooMuchThrows) {
  EXPECT_THROW(allocate_on_host(std::numeric_limits<std::size_t>::max()), std::bad_alloc);
}

}  // namespace
}  // namespace troupe::host_memory_test
