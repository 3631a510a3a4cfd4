// Tables put together again from their shards, and the digest of a model's bits.

#include "actors/weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "tests/kernels/support.hpp"

namespace troupe {
namespace {

using kernels::test::same_bits;
using kernels::test::source_of_numbers;

struct table {
  std::size_t rows;
  std::size_t dim;
  std::vector<float> weights;

  const float* row(std::size_t r) const { return weights.data() + r * dim; }
};

/// Row r goes to shard r % shards; `entry(row)` says what it leaves there.
template <class Number, class Entry>
std::vector<tensor> spread(const table& from, std::size_t shards, std::size_t columns, const Entry& entry) {
  std::vector<std::vector<Number>> parts(shards);
  for (std::size_t r = 0; r < from.rows; ++r) {
    const auto numbers = entry(from.row(r));
    parts[r % shards].insert(parts[r % shards].end(), numbers.begin(), numbers.end());
  }
  std::vector<tensor> result;
  for (auto& part : parts) result.push_back(tensor::own(part.size() / columns, columns, std::move(part)));
  return result;
}

std::uint64_t digest_of_floats(const float* numbers, std::size_t count) {
  return digest_of(reinterpret_cast<const std::byte*>(numbers), count * sizeof(float));
}

std::string digest_of_model(const std::vector<table>& tables, const std::vector<float>& dense, std::size_t shards) {
  std::vector<std::vector<tensor>> row_digests;
  for (const table& t : tables)
    row_digests.push_back(spread<std::uint64_t>(
        t, shards, 1, [&](const float* row) { return std::vector<std::uint64_t>{digest_of_floats(row, t.dim)}; }));
  return weights_digest(row_digests, tensor::own(dense.size(), 1, dense));
}

std::vector<table> some_tables() {
  source_of_numbers random(1);
  return {{7, 3, random.numbers(21)}, {1, 5, random.numbers(5)}, {12, 2, random.numbers(24)}};
}

TEST(weights, merged_shards_are_the_table) {
  for (const table& whole : some_tables()) {
    for (const std::size_t shards : {1, 2, 3, 5, 20}) {
      const auto parts = spread<float>(whole, shards, whole.dim,
                                       [&](const float* row) { return std::vector<float>(row, row + whole.dim); });
      const tensor merged = merge_shards(parts, whole.rows, whole.dim);
      EXPECT_EQ(merged.type, dtype::f32);
      EXPECT_EQ(merged.rows, whole.rows);
      EXPECT_EQ(merged.cols, whole.dim);
      EXPECT_TRUE(merged.consistent());
      EXPECT_TRUE(same_bits(merged.as<float>(), whole.weights)) << whole.rows << " rows, " << shards << " shards";
    }
  }
}

TEST(weights, merged_shards_of_16_bits_are_the_floats_that_they_stand_for) {
  for (const auto& [type, row_type] :
       {std::pair{dtype::f16, kernels::row_dtype::f16}, std::pair{dtype::bf16, kernels::row_dtype::bf16}}) {
    EXPECT_EQ(dtype_of(row_type), type);
    for (const table& whole : some_tables()) {
      for (const std::size_t shards : {1, 2, 5}) {
        std::vector<tensor> parts;
        for (std::size_t s = 0; s < shards; ++s) {
          std::vector<std::uint16_t> numbers;
          for (std::size_t r = s; r < whole.rows; r += shards) {
            numbers.resize(numbers.size() + whole.dim);
            kernels::encode(whole.dim, whole.row(r), {&numbers[numbers.size() - whole.dim], row_type});
          }
          const std::uint64_t rows = numbers.size() / whole.dim;
          parts.emplace_back(type, rows, whole.dim, blob::own(std::move(numbers)));
          ASSERT_TRUE(parts.back().consistent());
        }
        std::vector<std::uint16_t> stored(whole.weights.size());
        std::vector<float> expected(stored.size());
        kernels::encode(stored.size(), whole.weights.data(), {stored.data(), row_type});
        kernels::decode({stored.data(), row_type}, stored.size(), expected.data());
        const tensor merged = merge_shards(parts, whole.rows, whole.dim);
        EXPECT_EQ(merged.type, dtype::f32);
        EXPECT_TRUE(same_bits(merged.as<float>(), expected)) << whole.rows << " rows, " << shards << " shards";
      }
    }
  }
}

TEST(weights, digest_does_not_depend_on_the_sharding) {
  const auto tables = some_tables();
  const std::vector<float> dense = {1, 2, 3};
  const std::string digest = digest_of_model(tables, dense, 1);
  EXPECT_EQ(digest.size(), 16U);
  EXPECT_EQ(digest.find_first_not_of("0123456789abcdef"), std::string::npos) << digest;
  for (const std::size_t shards : {2, 3, 5, 20}) EXPECT_EQ(digest_of_model(tables, dense, shards), digest) << shards;
}

// XXH3 of no bytes, from the published reference implementation, is 2d06800538d394c2.
TEST(weights, digest_follows_its_definition) {
  EXPECT_EQ(digest_of(nullptr, 0), 0x2d06800538d394c2U);
  const std::uint64_t of_dense = 0x2d06800538d394c2U;
  char expected[17];
  std::snprintf(expected, sizeof expected, "%016llx",
                static_cast<unsigned long long>(digest_of(reinterpret_cast<const std::byte*>(&of_dense), 8)));
  EXPECT_EQ(weights_digest({}, tensor::own(0, 1, std::vector<float>())), expected);
}

// Lengths on both sides of the limits at which XXH3 changes its ways: 16, 128, 240 and 1024 bytes.
TEST(weights, digest_of_many_rows_is_that_of_their_digests_in_one_piece) {
  const std::vector<float> dense = {1, 2, 3};
  for (const std::size_t rows : {0, 1, 2, 15, 16, 29, 30, 31, 127, 128, 129, 1000}) {
    source_of_numbers random(rows);
    const table whole{rows, 3, random.numbers(rows * 3)};
    std::vector<std::uint64_t> parts;
    for (std::size_t r = 0; r < rows; ++r) parts.push_back(digest_of_floats(whole.row(r), whole.dim));
    parts.push_back(digest_of_floats(dense.data(), dense.size()));
    char expected[17];
    std::snprintf(expected, sizeof expected, "%016llx",
                  static_cast<unsigned long long>(
                      digest_of(reinterpret_cast<const std::byte*>(parts.data()), parts.size() * sizeof parts[0])));
    EXPECT_EQ(digest_of_model({whole}, dense, 2), expected) << rows;
  }
}

TEST(weights, digest_changes_with_any_bit) {
  auto tables = some_tables();
  std::vector<float> dense = {1, 0, -3};
  std::set<std::string> digests = {digest_of_model(tables, dense, 2)};
  std::size_t changes = 1;
  const auto flip_each = [&](std::vector<float>& numbers) {
    for (float& number : numbers) {
      for (int bit = 0; bit < 32; ++bit, ++changes) {
        const float kept = number;
        std::uint32_t bits = 0;
        std::memcpy(&bits, &number, sizeof bits);
        bits ^= std::uint32_t{1} << bit;
        std::memcpy(&number, &bits, sizeof bits);
        digests.insert(digest_of_model(tables, dense, 2));
        number = kept;
      }
    }
  };
  for (table& t : tables) flip_each(t.weights);
  flip_each(dense);
  EXPECT_EQ(digests.size(), changes);
}

TEST(weights, digest_changes_with_the_order_of_rows_and_tables) {
  const auto tables = some_tables();
  const std::vector<float> dense = {1, 2};
  const std::string digest = digest_of_model(tables, dense, 2);
  auto rows_swapped = tables;
  std::swap_ranges(rows_swapped[0].weights.begin(), rows_swapped[0].weights.begin() + 3,
                   rows_swapped[0].weights.begin() + 6);
  EXPECT_NE(digest_of_model(rows_swapped, dense, 2), digest);
  auto tables_swapped = tables;
  std::swap(tables_swapped[0], tables_swapped[1]);
  EXPECT_NE(digest_of_model(tables_swapped, dense, 2), digest);
  EXPECT_NE(digest_of_model(tables, {2, 1}, 2), digest);
}

}  // namespace
}  // namespace troupe
