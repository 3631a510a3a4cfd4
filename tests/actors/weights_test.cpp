// Tables joined from their shards, and the digest of a model's bits.

#include "actors/master/final_weights.hpp"
#include "base/digest.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "actors/server/row_codec.hpp"
#include "model/random.hpp"
#include "protocol/messages.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::actors::weights_test {
namespace {

using kernels::test::same_bits;
using kernels::test::source_of_numbers;

struct table {
  std::size_t rows;
  std::size_t dim;
  std::vector<float> weights;

  const float* row(std::size_t r) const { return weights.data() + r * dim; }
};

/// Row r goes to shard r % shards; `entry(row)` is what it stores there.
template <class Number, class Entry>
std::vector<msg::tensor> spread(const table& from, std::size_t shards, std::size_t columns, const Entry& entry) {
  std::vector<std::vector<Number>> parts(shards);
  for (std::size_t r = 0; r < from.rows; ++r) {
    const auto numbers = entry(from.row(r));
    parts[r % shards].insert(parts[r % shards].end(), numbers.begin(), numbers.end());
  }
  std::vector<msg::tensor> result;
  for (auto& part : parts) result.push_back(msg::tensor::own(part.size() / columns, columns, std::move(part)));
  return result;
}

std::uint64_t digest_of_floats(const float* numbers, std::size_t count) {
  return digest_of(reinterpret_cast<const std::byte*>(numbers), count * sizeof(float));
}

/// The shards' answer: the digests of a piece, by table and whole-table row.
template <class RowDigest>
msg::tensor answer_to(const weights_digest::piece& part, std::uint32_t shards, const RowDigest& digest_of_row) {
  std::vector<std::uint64_t> digests;
  for (std::uint64_t row = part.first; row < part.first + part.rows; ++row)
    digests.push_back(digest_of_row(part.table, row * shards + part.shard));
  return msg::tensor::own(part.rows, 1, std::move(digests));
}

/// Answers all requests, each time a random one of those outstanding.
template <class RowDigest>
std::string digest_in_pieces(const std::vector<weights_digest::table>& tables, const RowDigest& digest_of_row,
                             std::uint64_t dense_digest, std::uint64_t seed) {
  weights_digest digest(tables);
  model::random_sequence random(model::mix(seed));
  std::vector<weights_digest::piece> under_way;
  std::uint64_t rows_under_way = 0;
  while (true) {
    while (const auto part = digest.next()) {
      EXPECT_GT(part->rows, 0U);
      EXPECT_LE(part->rows, msg::row_digests_max);
      rows_under_way += part->rows;
      under_way.push_back(*part);
    }
    EXPECT_LE(rows_under_way, weights_digest::rows_max);
    if (under_way.empty()) return digest.text(dense_digest);
    std::swap(under_way.back(), under_way[random.below(under_way.size())]);
    const weights_digest::piece part = under_way.back();
    under_way.pop_back();
    rows_under_way -= part.rows;
    EXPECT_TRUE(digest.add(part, answer_to(part, tables[part.table].shards, digest_of_row)));
  }
}

std::string digest_of_model(const std::vector<table>& tables, const std::vector<float>& dense, std::uint32_t shards) {
  std::vector<weights_digest::table> shapes;
  for (const table& t : tables) shapes.push_back({t.rows, shards});
  const auto digest_of_row = [&](std::size_t t, std::uint64_t row) {
    return digest_of_floats(tables[t].row(row), tables[t].dim);
  };
  return digest_in_pieces(shapes, digest_of_row, digest_of_floats(dense.data(), dense.size()), 1);
}

std::vector<table> some_tables() {
  source_of_numbers random(1);
  return {{7, 3, random.numbers(21)}, {1, 5, random.numbers(5)}, {12, 2, random.numbers(24)}};
}

TEST(Weights, MergedShardsAreTheTable) {
  for (const table& whole : some_tables()) {
    for (const std::size_t shards : {1, 2, 3, 5, 20}) {
      const auto parts = spread<float>(whole, shards, whole.dim,
                                       [&](const float* row) { return std::vector<float>(row, row + whole.dim); });
      const msg::tensor merged = merge_shards(parts, whole.rows, whole.dim);
      EXPECT_EQ(merged.type, dtype::f32);
      EXPECT_EQ(merged.rows, whole.rows);
      EXPECT_EQ(merged.cols, whole.dim);
      EXPECT_TRUE(merged.consistent());
      EXPECT_TRUE(kernels::test::same_bits(merged.as<float>(), whole.weights))
          << whole.rows << " rows, " << shards << " shards";
    }
  }
}

/// Returns columns [first, first + count) of rows [from, from + rows).
msg::tensor columns_of(const table& whole, std::uint64_t from, std::uint64_t rows, model::column_range columns) {
  std::vector<float> numbers;
  for (std::uint64_t r = from; r < from + rows; ++r) {
    const float* const begin = whole.row(r) + columns.first;
    numbers.insert(numbers.end(), begin, begin + columns.count);
  }
  return msg::tensor::own(rows, columns.count, std::move(numbers));
}

TEST(Weights, MergedColumnsAreTheTable) {
  const auto tables = some_tables();
  const auto expect = [](const table& whole, const std::vector<model::column_range>& shards) {
    std::vector<msg::tensor> parts;
    for (const auto& range : shards) parts.push_back(columns_of(whole, 0, whole.rows, range));
    const msg::tensor merged = merge_shards(parts, whole.rows, whole.dim, model::table_split::columns);
    EXPECT_EQ(merged.cols, whole.dim);
    EXPECT_TRUE(kernels::test::same_bits(merged.as<float>(), whole.weights)) << shards.size() << " shards";
  };
  expect(tables[0], {{0, 3}});
  expect(tables[0], {{0, 2}, {2, 1}});
  expect(tables[1], {{0, 2}, {2, 2}, {4, 1}});
  expect(tables[2], {{0, 1}, {1, 1}});
}

/// The most recently requested piece is always answered first.
TEST(Weights, DigestOfColumnsIsThatOfWholeRows) {
  source_of_numbers random(5);
  auto tables = some_tables();
  tables.push_back({70'001, 30, random.numbers(70'001 * 30)});  // 8 MiB and more: in several pieces
  const std::vector<float> dense = {1, 2, 3};
  const std::string expected = digest_of_model(tables, dense, 1);
  for (const std::uint32_t shards : {2U, 3U}) {
    std::vector<weights_digest::table> shapes;
    for (const table& t : tables) shapes.push_back({t.rows, std::min<std::uint32_t>(shards, t.dim), t.dim});
    weights_digest digest(shapes);
    std::vector<weights_digest::piece> under_way;
    std::uint64_t bytes = 0;
    const auto range_of = [&](const weights_digest::piece& part) {
      const auto& [rows, count, dim] = shapes[part.table];
      return model::columns_on(dim, {part.shard, count, model::table_split::columns});
    };
    while (true) {
      while (const auto part = digest.next()) {
        bytes += part->rows * range_of(*part).count * sizeof(float);
        under_way.push_back(*part);
      }
      EXPECT_LE(bytes, weights_digest::bytes_max);
      if (under_way.empty()) break;
      const weights_digest::piece part = under_way.back();
      under_way.pop_back();
      const auto range = range_of(part);
      EXPECT_FALSE(digest.add(part, columns_of(tables[part.table], 0, part.rows, {0, range.count - 1})));
      EXPECT_FALSE(digest.add(part, msg::tensor::own(part.rows, 1, std::vector<std::uint64_t>(part.rows))));
      EXPECT_TRUE(digest.add(part, columns_of(tables[part.table], part.first, part.rows, range)));
      bytes -= part.rows * range.count * sizeof(float);
    }
    EXPECT_EQ(digest.text(digest_of_floats(dense.data(), dense.size())), expected) << shards;
  }
}

TEST(Weights, MergedShardsOf16BitsAreTheFloatsThatTheyStandFor) {
  for (const auto& [type, row_type] :
       {std::pair{dtype::f16, kernels::row_dtype::f16}, std::pair{dtype::bf16, kernels::row_dtype::bf16}}) {
    EXPECT_EQ(row_type, type);
    for (const table& whole : some_tables()) {
      for (const std::size_t shards : {1, 2, 5}) {
        std::vector<msg::tensor> parts;
        for (std::size_t s = 0; s < shards; ++s) {
          std::vector<std::uint16_t> numbers;
          for (std::size_t r = s; r < whole.rows; r += shards) {
            numbers.resize(numbers.size() + whole.dim);
            kernels::encode(whole.dim, whole.row(r), {&numbers[numbers.size() - whole.dim], row_type});
          }
          const std::uint64_t rows = numbers.size() / whole.dim;
          parts.emplace_back(type, rows, whole.dim, msg::blob::own(std::move(numbers)));
          ASSERT_TRUE(parts.back().consistent());
        }
        std::vector<std::uint16_t> stored(whole.weights.size());
        std::vector<float> expected(stored.size());
        kernels::encode(stored.size(), whole.weights.data(), {stored.data(), row_type});
        kernels::decode({stored.data(), row_type}, stored.size(), expected.data());
        const msg::tensor merged = merge_shards(parts, whole.rows, whole.dim);
        EXPECT_EQ(merged.type, dtype::f32);
        EXPECT_TRUE(kernels::test::same_bits(merged.as<float>(), expected))
            << whole.rows << " rows, " << shards << " shards";
      }
    }
  }
}

TEST(Weights, DigestDoesNotDependOnTheSharding) {
  const auto tables = some_tables();
  const std::vector<float> dense = {1, 2, 3};
  const std::string digest = digest_of_model(tables, dense, 1);
  EXPECT_EQ(digest.size(), 16U);
  EXPECT_EQ(digest.find_first_not_of("0123456789abcdef"), std::string::npos) << digest;
  for (const std::uint32_t shards : {2, 3, 5, 20}) EXPECT_EQ(digest_of_model(tables, dense, shards), digest) << shards;
}

// XXH3 of no bytes, from the published reference implementation, is 2d06800538d394c2.
TEST(Weights, DigestFollowsItsDefinition) {
  EXPECT_EQ(digest_of(nullptr, 0), 0x2d06800538d394c2U);
  const std::uint64_t of_dense = 0x2d06800538d394c2U;
  char expected[17];
  std::snprintf(expected, sizeof expected, "%016llx",
                static_cast<unsigned long long>(digest_of(reinterpret_cast<const std::byte*>(&of_dense), 8)));
  EXPECT_EQ(digest_of_model({}, {}, 1), expected);
}

// Lengths on both sides of the limits at which XXH3 changes its method: 16, 128, 240 and 1024 bytes.
TEST(Weights, DigestOfManyRowsIsThatOfTheirDigestsInOnePiece) {
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

// Tables of one piece and of many, with fewer rows than shards, and with more rows than may be outstanding.
TEST(Weights, DigestInPiecesDependsOnNeitherTheirOrderNorTheirSize) {
  const std::vector<std::uint64_t> rows = {5, msg::row_digests_max, msg::row_digests_max + 1,
                                           weights_digest::rows_max + 1003};
  const auto digest_of_row = [](std::size_t table, std::uint64_t row) { return model::mix(row * 7 + table); };
  std::vector<std::uint64_t> parts;
  for (std::size_t t = 0; t < rows.size(); ++t)
    for (std::uint64_t row = 0; row < rows[t]; ++row) parts.push_back(digest_of_row(t, row));
  constexpr std::uint64_t of_dense = 77;
  parts.push_back(of_dense);
  char expected[17];
  std::snprintf(expected, sizeof expected, "%016llx",
                static_cast<unsigned long long>(
                    digest_of(reinterpret_cast<const std::byte*>(parts.data()), parts.size() * sizeof parts[0])));
  for (const std::uint32_t shards : {1U, 3U, 16U, 20U, 1024U}) {
    std::vector<weights_digest::table> tables;
    for (const std::uint64_t count : rows) tables.push_back({count, shards});
    for (std::uint64_t seed = 0; seed < 2; ++seed)
      EXPECT_EQ(digest_in_pieces(tables, digest_of_row, of_dense, seed), expected) << shards << " shards";
  }
}

TEST(Weights, AnswersThatAreNotTheDigestsAskedForAreRefused) {
  weights_digest digest({{10, 2}});
  const auto first = digest.next();
  const auto second = digest.next();
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(digest.next());
  EXPECT_EQ(second->shard, 1U);
  EXPECT_FALSE(digest.add(*first, {}));
  EXPECT_FALSE(digest.add(*first, msg::tensor::own(4, 1, std::vector<std::uint64_t>(4))));
  EXPECT_FALSE(digest.add(*first, msg::tensor::own(6, 1, std::vector<std::uint64_t>(6))));
  EXPECT_FALSE(digest.add(*first, msg::tensor::own(5, 1, std::vector<std::int64_t>(5))));
  EXPECT_FALSE(digest.add(*first, msg::tensor::own(5, 2, std::vector<std::uint64_t>(10))));
  EXPECT_TRUE(digest.add(*first, msg::tensor::own(5, 1, std::vector<std::uint64_t>(5))));
  EXPECT_TRUE(digest.add(*second, msg::tensor::own(5, 1, std::vector<std::uint64_t>(5))));
}

TEST(Weights, DigestChangesWithAnyBit) {
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

TEST(Weights, DigestChangesWithTheOrderOfRowsAndTables) {
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
}  // namespace troupe::actors::weights_test
