#include "model/memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <utility>

namespace troupe::model::memory_test {
namespace {

constexpr auto unlimited = std::numeric_limits<std::uint64_t>::max();

using kernels::row_dtype;

std::uint64_t bytes_of(std::int64_t rows, std::size_t dim, const char* optimizer, row_dtype dtype = row_dtype::f32) {
  return table_bytes(rows, dim, dtype, *parse_optimizer(optimizer, optimizer_use::table));
}

TEST(Memory, ATableTakesItsRowsAndItsOptimizersState) {
  EXPECT_EQ(bytes_of(1, 1, "sgd"), 4U);
  EXPECT_EQ(bytes_of(1000, 64, "sgd"), 256'000U);
  EXPECT_EQ(bytes_of(1000, 64, "lazy-sgd:momentum=0.9"), 512'000U);
  EXPECT_EQ(bytes_of(1000, 64, "adagrad"), 512'000U);
  EXPECT_EQ(bytes_of(1000, 64, "lazy-adam"), 768'000U);
  EXPECT_EQ(bytes_of(1000, 64, "rowwise-adagrad"), 260'000U);
  EXPECT_EQ(bytes_of(0, 64, "adam"), 0U);
  EXPECT_EQ(bytes_of(3'000'000'000, 128, "adam"), 4'608'000'000'000U);
}

TEST(Memory, RowsOf16BitsTakeHalfAndTheirStateStays) {
  for (const row_dtype dtype : {row_dtype::f16, row_dtype::bf16}) {
    EXPECT_EQ(bytes_of(1000, 64, "sgd", dtype), 128'000U);
    EXPECT_EQ(bytes_of(1000, 64, "adam", dtype), 640'000U);
    EXPECT_EQ(bytes_of(1000, 64, "rowwise-adagrad", dtype), 132'000U);
  }
}

TEST(Memory, ATableBeyond64BitsTakesTheLargestNumber) {
  constexpr std::int64_t most_rows = std::numeric_limits<std::int64_t>::max();
  constexpr std::size_t most_columns = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(bytes_of(std::int64_t{1} << 60, 1, "sgd"), std::uint64_t{1} << 62);
  EXPECT_EQ(bytes_of(std::int64_t{1} << 60, 1, "adam"), 12 * (std::uint64_t{1} << 60));
  EXPECT_EQ(bytes_of(std::int64_t{1} << 61, 1, "adagrad"), unlimited);
  EXPECT_EQ(bytes_of(std::int64_t{1} << 62, 1, "sgd"), unlimited);
  EXPECT_EQ(bytes_of(std::int64_t{1} << 32, std::size_t{1} << 32, "sgd"), unlimited);
  EXPECT_EQ(bytes_of(most_rows, 1, "sgd"), unlimited);
  EXPECT_EQ(bytes_of(most_rows, most_columns, "adam"), unlimited);
  EXPECT_EQ(bytes_of(1, most_columns, "adam"), unlimited);
  EXPECT_EQ(bytes_of(1, most_columns / 4, "adagrad"), unlimited);
}

TEST(Memory, ProductsStopAtTheLargestNumber) {
  EXPECT_EQ(bounded_product(3, 5), 15U);
  EXPECT_EQ(bounded_product(unlimited, 1), unlimited);
  EXPECT_EQ(bounded_product(std::uint64_t{1} << 32, std::uint64_t{1} << 32), unlimited);
}

TEST(Memory, WhatIsAvailableIsAPartOfWhatThereIs) {
  const auto physical =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  // This test itself needs only a few MiB.
  EXPECT_GT(available_memory(), std::uint64_t{1} << 20);
  EXPECT_LE(available_memory(), physical);
}

TEST(Memory, TheFaultNamesTheThingAndItsSizeAndSaysWhatToTry) {
  const std::string fault = memory_fault("table 3", std::uint64_t{3} << 29);
  EXPECT_EQ(fault.find("table 3 would take 1.5 GiB, and "), 0U) << fault;
  EXPECT_NE(fault.find(" of memory are available; use less, or an optimizer with less state"), std::string::npos)
      << fault;
  EXPECT_EQ(memory_fault("a module", std::uint64_t{96} << 20, std::uint64_t{1} << 19, "use less"),
            "a module would take 96.0 MiB, and 512.0 KiB of memory are available; use less");
}

TEST(Memory, WhatIsClaimedIsNotAvailableUntilItIsGivenUp) {
  const std::uint64_t before = claimed_memory();
  const std::uint64_t available = available_memory();
  auto most = claim_memory(available / 4 * 3);
  ASSERT_TRUE(most);
  EXPECT_EQ(claimed_memory(), before + available / 4 * 3);
  const auto more = claim_memory(available / 2);
  ASSERT_FALSE(more);
  EXPECT_LT(more.error(), available / 2);
  most->shrink(1000);
  EXPECT_EQ(claimed_memory(), before + 1000);
  memory_claim other = std::move(*most);
  other.shrink(2000);
  EXPECT_EQ(other.bytes(), 1000U);
  EXPECT_TRUE(claim_memory(available / 2)) << "and given up at once";
  EXPECT_EQ(claimed_memory(), before + 1000);
  other = memory_claim();
  EXPECT_EQ(claimed_memory(), before);
  EXPECT_FALSE(claim_memory(unlimited));
}

}  // namespace
}  // namespace troupe::model::memory_test
