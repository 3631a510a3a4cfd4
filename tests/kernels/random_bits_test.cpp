// Batches of random numbers equal those that `random_bits` gives one by one, on every instruction set.

#include "kernels/random_bits.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "tests/kernels/support.hpp"

namespace troupe::kernels::test::random_bits_test {
namespace {

constexpr std::uint64_t largest = ~std::uint64_t{0};
constexpr std::uint64_t keys[] = {0, 1, 42, 0x123456789abcdef0, std::uint64_t{1} << 63, largest};
constexpr std::size_t count_max = 70;
constexpr std::uint64_t untouched = 12345;

/// Expects that `out` holds the numbers of `counters`, followed by an untouched one.
void expect_numbers(std::uint64_t key, std::span<const std::uint64_t> counters, std::span<const std::uint64_t> out) {
  ASSERT_EQ(out.size(), counters.size() + 1);
  for (std::size_t i = 0; i < counters.size(); ++i)
    ASSERT_EQ(out[i], random_bits(key, counters[i])) << "key " << key << ", counter " << counters[i];
  EXPECT_EQ(out.back(), untouched) << counters.size();
}

TEST(DrawBits, GivesTheNumbersOfAStreamFromAnyOfThemOn) {
  on_every_target([] {
    for (const std::uint64_t key : keys) {
      for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{77},
                                        (std::uint64_t{1} << 32) - 3, std::uint64_t{1} << 40, largest - 9}) {
        for (std::size_t count = 0; count <= count_max; ++count) {
          std::vector<std::uint64_t> counters(count);
          for (std::size_t i = 0; i < count; ++i) counters[i] = first + i;
          std::vector<std::uint64_t> out(count + 1, untouched);
          draw_bits(key, first, {out.data(), count});
          expect_numbers(key, counters, out);
        }
      }
    }
  });
}

TEST(DrawBits, GivesTheNumbersOfAnyCountersInTheirPlaceToo) {
  on_every_target([] {
    for (const std::uint64_t key : keys) {
      for (std::size_t count = 0; count <= count_max; ++count) {
        std::vector<std::uint64_t> counters(count);
        for (std::size_t i = 0; i < count; ++i) counters[i] = random_bits(count, i) >> (i % 64);
        if (count > 1) counters.back() = largest;
        std::vector<std::uint64_t> out(count + 1, untouched);
        draw_bits(key, counters, out.data());
        expect_numbers(key, counters, out);
        std::vector<std::uint64_t> in_place = counters;
        in_place.push_back(untouched);
        draw_bits(key, {in_place.data(), count}, in_place.data());
        expect_numbers(key, counters, in_place);
      }
    }
  });
}

}  // namespace
}  // namespace troupe::kernels::test::random_bits_test
