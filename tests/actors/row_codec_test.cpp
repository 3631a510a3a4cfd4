// Rows as they travel: rounded once, the same in both directions, and Inf found at its source.

#include "actors/server/row_codec.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "tests/actors/rounding.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::actors::row_codec_test {
namespace {

using kernels::row_dtype;
using kernels::test::same_bits;
using kernels::test::source_of_numbers;

constexpr row_dtype all_types[] = {row_dtype::f32, row_dtype::f16, row_dtype::bf16};

std::vector<float> decoded(const msg::tensor& from) {
  std::vector<float> numbers(from.rows * from.cols);
  decode_rows(from, numbers.data());
  return numbers;
}

TEST(Wire, RowsAreRoundedOnceAndComeBackSo) {
  source_of_numbers random(1);
  std::vector<float> numbers = random.numbers(7 * 9);
  // Both sides of a tie, a number that is tiny for either type, and the largest that does not overflow float16.
  numbers[0] = 1.0F + 0x1p-11F;
  numbers[1] = 1.0F + 0x1.8p-10F;
  numbers[2] = 0x1p-25F;
  numbers[3] = 65519.0F;
  numbers[4] = -0.0F;
  for (const row_dtype type : all_types) {
    const msg::tensor sent = encode_rows(numbers.data(), 7, 9, type);
    EXPECT_EQ(sent.type, type);
    EXPECT_TRUE(kernels::is_row_dtype(type));
    EXPECT_EQ(sent.rows, 7u);
    EXPECT_EQ(sent.cols, 9u);
    EXPECT_TRUE(sent.consistent());
    EXPECT_EQ(sent.bytes.size(), 63 * size_of(type));
    EXPECT_TRUE(kernels::test::same_bits(decoded(sent), rounded(numbers, type))) << static_cast<int>(type);
    const auto once = decoded(sent);
    EXPECT_TRUE(kernels::test::same_bits(decoded(encode_rows(once.data(), 7, 9, type)), once))
        << "what fits travels exactly";
  }
}

TEST(Wire, RowsDoNotTravelAsOtherTypes) {
  for (const dtype type : {dtype::f64, dtype::i64, dtype::u64}) EXPECT_FALSE(kernels::is_row_dtype(type));
}

TEST(Wire, TheFirstNumberThatIsNotFiniteIsFound) {
  for (const row_dtype type : all_types) {
    for (const std::size_t count : {0, 1, 511, 512, 513, 1500}) {
      std::vector<float> numbers(count, 65000.0F);
      EXPECT_EQ(find_non_finite(encode_rows(numbers.data(), count, 1, type)), count);
      for (const std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
        if (count == 0) continue;
        for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::quiet_NaN()}) {
          auto with_bad = numbers;
          with_bad[at] = bad;
          with_bad.back() = bad;
          EXPECT_EQ(find_non_finite(encode_rows(with_bad.data(), count, 1, type)), at);
        }
      }
    }
  }
}

// Values that round to 65536 in float16, or above bfloat16's largest number, overflow.
TEST(Wire, WhatATypeDoesNotHoldBecomesInf) {
  const std::vector<float> numbers = {65519.0F, 65520.0F, std::numeric_limits<float>::max()};
  EXPECT_EQ(find_non_finite(encode_rows(numbers.data(), 3, 1, row_dtype::f16)), 1u);
  EXPECT_EQ(find_non_finite(encode_rows(numbers.data(), 3, 1, row_dtype::bf16)), 2u);
  EXPECT_EQ(find_non_finite(encode_rows(numbers.data(), 3, 1, row_dtype::f32)), 3u);
}

}  // namespace
}  // namespace troupe::actors::row_codec_test
