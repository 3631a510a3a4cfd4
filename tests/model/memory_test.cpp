#include "model/memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <limits>

namespace troupe {
namespace {

constexpr auto unlimited = std::numeric_limits<std::uint64_t>::max();

TEST(memory, a_table_takes_four_bytes_a_number_for_weights_and_each_buffer) {
  EXPECT_EQ(table_bytes(1, 1, 0), 4U);
  EXPECT_EQ(table_bytes(1000, 64, 0), 256'000U);
  EXPECT_EQ(table_bytes(1000, 64, 1), 512'000U);
  EXPECT_EQ(table_bytes(1000, 64, 2), 768'000U);
  EXPECT_EQ(table_bytes(0, 64, 2), 0U);
  EXPECT_EQ(table_bytes(3'000'000'000, 128, 2), 4'608'000'000'000U);
}

TEST(memory, a_table_beyond_64_bits_takes_the_largest_number) {
  constexpr std::int64_t most_rows = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(table_bytes(std::int64_t{1} << 60, 1, 0), std::uint64_t{1} << 62);
  EXPECT_EQ(table_bytes(std::int64_t{1} << 60, 1, 2), 12 * (std::uint64_t{1} << 60));
  EXPECT_EQ(table_bytes(std::int64_t{1} << 61, 1, 1), unlimited);
  EXPECT_EQ(table_bytes(std::int64_t{1} << 62, 1, 0), unlimited);
  EXPECT_EQ(table_bytes(std::int64_t{1} << 32, std::size_t{1} << 32, 0), unlimited);
  EXPECT_EQ(table_bytes(most_rows, 1, 0), unlimited);
  EXPECT_EQ(table_bytes(most_rows, std::numeric_limits<std::size_t>::max(), 2), unlimited);
}

TEST(memory, what_is_available_is_a_part_of_what_there_is) {
  const auto physical =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  // This test itself runs in a few MiB.
  EXPECT_GT(available_memory(), std::uint64_t{1} << 20);
  EXPECT_LE(available_memory(), physical);
}

TEST(memory, the_fault_names_the_thing_and_its_size_and_says_what_to_try) {
  const std::string fault = memory_fault("table 3", std::uint64_t{3} << 29);
  EXPECT_EQ(fault.find("table 3 would take 1.5 GiB, and "), 0U) << fault;
  EXPECT_NE(fault.find(" GiB of memory are available; use less, or an optimizer with less state"),
            std::string::npos)
      << fault;
}

}  // namespace
}  // namespace troupe
