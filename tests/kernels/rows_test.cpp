// Rows stored in 16 bits: the value of each bit pattern, rounding to nearest even, and kernels on 16 bits against the
// same kernels on float32.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/embedding_bag.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::kernels::test::rows_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct format {
  std::string name;
  row_dtype type;
  int exponent_bits;
  int fraction_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint16_t infinite() const { return static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << fraction_bits); }
};

const format formats[] = {{"f16", row_dtype::f16, 5, 10}, {"bf16", row_dtype::bf16, 8, 7}};

/// Returns the value of a pattern by IEEE 754.
double value_of(const format& f, std::uint16_t pattern) {
  const double sign = (pattern & 0x8000) != 0 ? -1 : 1;
  const int exponent = (pattern & 0x7fff) >> f.fraction_bits;
  const int fraction = pattern & ((1 << f.fraction_bits) - 1);
  if (exponent == (1 << f.exponent_bits) - 1) {
    return fraction == 0 ? sign * HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
  }
  const int whole = exponent == 0 ? fraction : fraction + (1 << f.fraction_bits);
  return sign * std::ldexp(whole, std::max(exponent, 1) - f.bias() - f.fraction_bits);
}

std::vector<float> decoded(const format& f, const std::vector<std::uint16_t>& patterns) {
  std::vector<float> numbers(patterns.size());
  decode({patterns.data(), f.type}, patterns.size(), numbers.data());
  return numbers;
}

std::vector<std::uint16_t> encoded(const format& f, const std::vector<float>& numbers) {
  std::vector<std::uint16_t> patterns(numbers.size());
  encode(numbers.size(), numbers.data(), {patterns.data(), f.type});
  return patterns;
}

/// Every pattern from 0 to 0xffff.
std::vector<std::uint16_t> all_patterns() {
  std::vector<std::uint16_t> patterns(65536);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  return patterns;
}

/// Returns the pattern nearest to x, ties to even, by a search of all values.
std::uint16_t nearest_pattern(const format& f, float x) {
  const double magnitude = std::abs(static_cast<double>(x));
  // Patterns of positive numbers ascend with their values.
  std::uint16_t low = 0;
  std::uint16_t high = f.infinite();
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (value_of(f, middle) <= magnitude ? low : high) = middle;
  }
  // Infinity has the value that the next finite number would have.
  const double above = high == f.infinite() ? std::ldexp(1.0, f.bias() + 1) : value_of(f, high);
  const double to_low = magnitude - value_of(f, low);
  const double to_high = above - magnitude;
  const bool is_low = to_low < to_high || (to_low == to_high && low % 2 == 0);
  return static_cast<std::uint16_t>((is_low ? low : high) | (std::signbit(x) ? 0x8000 : 0));
}

TEST(Rows, EveryPatternHasItsValue) {
  const auto patterns = all_patterns();
  for (const format& f : formats) {
    on_every_target([&] {
      const auto numbers = decoded(f, patterns);
      for (std::size_t i = 0; i < patterns.size(); ++i) {
        const double expected = value_of(f, patterns[i]);
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(numbers[i])) << f.name << " pattern " << i;
        } else {
          ASSERT_EQ(static_cast<double>(numbers[i]), expected) << f.name << " pattern " << i;
          ASSERT_EQ(std::signbit(numbers[i]), std::signbit(expected)) << f.name << " pattern " << i;
        }
      }
    });
  }
}

TEST(Rows, ANumberThatTheTypeHasKeepsItsPattern) {
  for (const format& f : formats) {
    on_every_target([&] {
      auto patterns = all_patterns();
      std::erase_if(patterns, [&](std::uint16_t p) { return std::isnan(value_of(f, p)); });
      EXPECT_EQ(encoded(f, decoded(f, patterns)), patterns) << f.name;
    });
  }
}

void expect_nearest(const format& f, const std::vector<float>& numbers) {
  const auto patterns = encoded(f, numbers);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    ASSERT_EQ(patterns[i], nearest_pattern(f, numbers[i])) << f.name << " of " << numbers[i];
  }
}

TEST(Rows, HalfwayGoesToTheEvenOneAndAHairBesideToTheNearer) {
  for (const format& f : formats) {
    std::vector<float> numbers;
    for (std::uint16_t p = 0; p < f.infinite(); ++p) {
      const double above = p + 1 == f.infinite() ? std::ldexp(1.0, f.bias() + 1) : value_of(f, p + 1);
      const auto halfway = static_cast<float>((value_of(f, p) + above) / 2);  // exact: floats have more bits
      for (const float x : {std::nextafter(halfway, 0.0F), halfway, std::nextafter(halfway, infinity)}) {
        numbers.push_back(x);
        numbers.push_back(-x);
      }
    }
    on_every_target([&] { expect_nearest(f, numbers); });
  }
}

TEST(Rows, RandomFloatsGoToTheNearest) {
  std::mt19937 bits(7);
  std::vector<float> numbers;
  while (numbers.size() < 200'000) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits()));
    if (std::isfinite(x)) numbers.push_back(x);
    // As many again within the range of f16.
    numbers.push_back(std::ldexp(static_cast<float>(bits()) / 4294967296.0F, static_cast<int>(bits() % 48) - 30));
  }
  numbers.insert(numbers.end(), {0.0F, -0.0F, std::numeric_limits<float>::denorm_min(),
                                 std::numeric_limits<float>::min(), std::numeric_limits<float>::max()});
  for (const format& f : formats) on_every_target([&] { expect_nearest(f, numbers); });
}

TEST(Rows, WhatIsTooLargeBecomesInfiniteAndNanStaysNan) {
  for (const format& f : formats) {
    on_every_target([&] {
      const auto max = std::numeric_limits<float>::max();
      const auto infinite = f.infinite();
      const auto minus_infinite = static_cast<std::uint16_t>(infinite | 0x8000);
      EXPECT_EQ(encoded(f, {infinity, max, -infinity, -max}),
                (std::vector<std::uint16_t>{infinite, infinite, minus_infinite, minus_infinite}));
      // NaNs whose payload is in the dropped bits.
      for (const std::uint32_t bits : {0x7fc00000U, 0x7f800001U, 0xff800001U, 0xffffffffU}) {
        EXPECT_TRUE(std::isnan(decoded(f, encoded(f, {std::bit_cast<float>(bits)}))[0])) << f.name;
      }
    });
  }
  EXPECT_EQ(encoded(formats[0], {65519.99F})[0], 0x7bff);
  EXPECT_EQ(encoded(formats[0], {65520.0F})[0], 0x7c00);
}

TEST(Rows, OfAnyLengthAreConvertedWholeAndNothingBesideThem) {
  for (const format& f : formats) {
    on_every_target([&] {
      for (const std::size_t count : odd_sizes) {
        source_of_numbers random(static_cast<std::uint32_t>(count));
        const auto numbers = random.numbers(count);
        std::vector<std::uint16_t> patterns(count + 1, 0x1234);
        encode(count, numbers.data(), {patterns.data(), f.type});
        EXPECT_EQ(patterns[count], 0x1234);
        std::vector<float> back(count + 1, 77.0F);
        decode({patterns.data(), f.type}, count, back.data());
        EXPECT_EQ(back[count], 77.0F);
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(back[i], static_cast<float>(value_of(f, nearest_pattern(f, numbers[i]))));
      }
    });
  }
}

TEST(Rows, OfFloatsAreCopied) {
  const std::vector<float> numbers = {1.5F, -infinity, 1e-40F};
  std::vector<float> stored(3);
  encode(3, numbers.data(), stored.data());
  EXPECT_TRUE(same_bits(stored, numbers));
  std::vector<float> back(3);
  decode(stored.data(), 3, back.data());
  EXPECT_TRUE(same_bits(back, numbers));
}

struct pooled {
  pooling mode;
  bool weighted;
};

TEST(Rows, ArePooledAndGatheredAsTheFloatsThatTheyStandFor) {
  constexpr std::size_t table_rows = 40;
  for (const format& f : formats) {
    on_every_target([&] {
      for (const std::size_t dim : odd_sizes) {
        source_of_numbers random(static_cast<std::uint32_t>(dim));
        const auto stored = encoded(f, random.numbers(table_rows * dim));
        const auto floats = decoded(f, stored);
        for (const auto& [mode, weighted] : {pooled{pooling::sum, false}, pooled{pooling::sum, true},
                                             pooled{pooling::mean, false}, pooled{pooling::max, false}}) {
          const bag_batch bags = make_bags(random, 9, table_rows, weighted);
          std::vector<float> got(9 * dim);
          std::vector<float> expected(9 * dim);
          host_stream().embedding_bag_forward(mode, {stored.data(), f.type}, dim, bags.view(), got.data(), dim);
          host_stream().embedding_bag_forward(mode, floats.data(), dim, bags.view(), expected.data(), dim);
          ASSERT_TRUE(same_bits(got, expected)) << f.name << " dim " << dim;
          std::vector<float> gathered(bags.indices.size() * dim);
          host_stream().gather_rows({stored.data(), f.type}, dim, bags.indices, gathered.data());
          for (std::size_t i = 0; i < bags.indices.size(); ++i) {
            const std::size_t at = static_cast<std::size_t>(bags.indices[i]) * dim;
            ASSERT_TRUE(same_bits({&gathered[i * dim], dim}, {&floats[at], dim})) << f.name << " dim " << dim;
          }
        }
      }
    });
  }
}

}  // namespace
}  // namespace troupe::kernels::test::rows_test
