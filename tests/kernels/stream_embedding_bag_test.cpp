// A stream's embedding bags, bitwise: a bag is summed in the same order on every device.

#include <cmath>
#include <limits>

#include "kernels/embedding_bag.hpp"
#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_embedding_bag_test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();
constexpr std::size_t table_rows = 23;

/// One bag and column as defined by embedding_bag.hpp, from a table of floats.
float pooled(pooling mode, const std::vector<float>& table, std::size_t dim, const bags_view& bags, std::size_t bag,
             std::size_t column) {
  float sum = 0;
  const std::size_t begin = bags.begin_of(bag);
  const std::size_t end = bags.end_of(bag);
  for (std::size_t i = begin; i < end; ++i) {
    const float x = table[static_cast<std::size_t>(bags.indices[i]) * dim + column];
    if (mode == pooling::max) {
      sum = i == begin || x > sum ? x : sum;
    } else {
      sum = bags.weights.empty() ? sum + x : std::fma(bags.weights[i], x, sum);
    }
  }
  return mode == pooling::mean && begin < end ? sum / static_cast<float>(end - begin) : sum;
}

template <class Place>
class StreamEmbeddingBag : public stream_test<Place> {
 protected:
  struct stored_table {
    device_array<std::byte> memory;
    std::size_t before;
    row_dtype type;
    std::vector<float> floats;  ///< the stored values, widened

    const_table_view view() const { return {memory.data() + before, type}; }
  };

  /// Stores the table `before` numbers after the start of its memory.
  stored_table store(row_dtype type, const std::vector<float>& numbers, std::size_t before) {
    stored_table made{{}, before * size_of(type), type, numbers};
    std::vector<std::byte> stored(numbers.size() * size_of(type));
    encode(numbers.size(), numbers.data(), {stored.data(), type});
    decode({stored.data(), type}, numbers.size(), made.floats.data());
    made.memory = this->put(stored, made.before);
    return made;
  }

  std::vector<float> forward(pooling mode, const stored_table& from, std::size_t dim, const bag_batch& bags,
                             std::size_t out_stride) {
    const auto indices = this->put(bags.indices);
    const auto offsets = this->put(bags.offsets);
    const auto weights = this->put(bags.weights);
    const auto out = this->put(std::vector<float>(bags.offsets.size() * out_stride, 7.0F));
    this->on().embedding_bag_forward(
        mode, from.view(), dim,
        {{indices.data(), indices.size()}, {offsets.data(), offsets.size()}, {weights.data(), weights.size()}},
        out.data(), out_stride);
    return this->get(out);
  }

  void expect_pooled(pooling mode, const stored_table& from, std::size_t dim, const bag_batch& bags,
                     std::size_t out_stride) {
    std::vector<float> expected(bags.offsets.size() * out_stride, 7.0F);
    for (std::size_t bag = 0; bag < bags.offsets.size(); ++bag) {
      for (std::size_t c = 0; c < dim; ++c) {
        expected[bag * out_stride + c] = pooled(mode, from.floats, dim, bags.view(), bag, c);
      }
    }
    ASSERT_TRUE(same_bits(forward(mode, from, dim, bags, out_stride), expected));
  }
};
TYPED_TEST_SUITE(StreamEmbeddingBag, each_device, device_names);

TYPED_TEST(StreamEmbeddingBag, PoolsInIndexOrder) {
  for (const row_dtype type : {row_dtype::f32, row_dtype::f16, row_dtype::bf16}) {
    for (const std::size_t dim : {1, 3, 4, 8, 12, 16, 33, 64, 100, 128, 260, 600}) {
      for (const std::size_t wider : {0, 3}) {
        source_of_numbers random(static_cast<std::uint32_t>(dim));
        const auto table = this->store(type, random.numbers(table_rows * dim), wider);
        for (const bool weighted : {false, true}) {
          SCOPED_TRACE("type " + std::to_string(static_cast<int>(type)) + " dim " + std::to_string(dim) + " wider " +
                       std::to_string(wider) + (weighted ? " weighted" : ""));
          const bag_batch bags = make_bags(random, 9, table_rows, weighted);
          this->expect_pooled(pooling::sum, table, dim, bags, dim + wider);
          if (weighted) continue;
          this->expect_pooled(pooling::mean, table, dim, bags, dim + wider);
          this->expect_pooled(pooling::max, table, dim, bags, dim + wider);
        }
      }
    }
  }
}

TYPED_TEST(StreamEmbeddingBag, TakesBagsOfAnyLength) {
  source_of_numbers random(3);
  const auto table = this->store(row_dtype::f32, random.numbers(table_rows * 8), 0);
  bag_batch bags;
  for (std::size_t length = 0; length < 40; ++length) {
    bags.offsets.push_back(static_cast<std::int64_t>(bags.indices.size()));
    for (std::size_t i = 0; i < length; ++i)
      bags.indices.push_back(static_cast<std::int64_t>(random.below(table_rows)));
  }
  for (const pooling mode : {pooling::sum, pooling::mean, pooling::max}) this->expect_pooled(mode, table, 8, bags, 8);
}

TYPED_TEST(StreamEmbeddingBag, ANanWinsAMaximumOnlyAsTheFirstEntry) {
  const auto table = this->store(row_dtype::f32, {nan, 1.0F, -inf, 2.0F}, 0);
  const std::vector<float> got =
      this->forward(pooling::max, table, 1, bag_batch{{0, 1, 1, 0, 2, 2, 0, 3, 1}, {0, 2, 4, 5, 5, 7}, {}}, 1);
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(got[1], 1.0F);
  EXPECT_EQ(got[2], -inf);
  EXPECT_EQ(got[3], 0.0F);  // empty
  EXPECT_EQ(got[4], -inf);
  EXPECT_EQ(got[5], 2.0F);
}

TYPED_TEST(StreamEmbeddingBag, TakesNoBags) {
  const auto table = this->store(row_dtype::f32, {1.0F}, 0);
  EXPECT_TRUE(this->forward(pooling::sum, table, 1, {}, 1).empty());
}

TYPED_TEST(StreamEmbeddingBag, GathersRowsBitByBit) {
  for (const row_dtype type : {row_dtype::f32, row_dtype::f16, row_dtype::bf16}) {
    for (const std::size_t dim : {1, 5, 8, 128}) {
      source_of_numbers random(static_cast<std::uint32_t>(dim));
      std::vector<float> numbers = random.numbers(table_rows * dim);
      numbers[0] = -0.0F;
      numbers[dim] = inf;
      const auto table = this->store(type, numbers, 0);
      const std::vector<std::int64_t> wanted = {0, 22, 1, 1, 7};
      const auto indices = this->put(wanted);
      const auto out = this->template buffer<float>(wanted.size() * dim);
      this->on().gather_rows(table.view(), dim, {indices.data(), wanted.size()}, out.data());
      this->on().gather_rows(table.view(), dim, {indices.data(), 0}, nullptr);
      std::vector<float> expected;
      for (const std::int64_t row : wanted) {
        const auto from = table.floats.begin() + row * static_cast<std::int64_t>(dim);
        expected.insert(expected.end(), from, from + static_cast<std::int64_t>(dim));
      }
      ASSERT_TRUE(same_bits(this->get(out), expected));
    }
  }
}

}  // namespace
}  // namespace troupe::kernels::test::stream_embedding_bag_test
