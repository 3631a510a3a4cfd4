// A stream's table gradients: grouping, sums and row updates equal `update_rows` bitwise.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "kernels/embedding_bag.hpp"
#include "tests/kernels/gradient_sources.hpp"
#include "tests/kernels/optimizer_support.hpp"
#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_table_gradient_test {
namespace {

/// The same gradients with a gap of one number after each row of `dim`.
std::vector<gradient_source> spread_out(std::vector<gradient_source> sources, std::size_t dim) {
  for (gradient_source& one : sources) {
    const std::size_t bags = one.grad.size() / one.stride;
    std::vector<float> wide(bags * (dim + 1));
    for (std::size_t bag = 0; bag < bags; ++bag)
      std::copy_n(one.grad.data() + bag * one.stride, dim, wide.data() + bag * (dim + 1));
    one.grad = std::move(wide);
    one.stride = dim + 1;
  }
  return sources;
}

template <class Place>
class StreamTableGradient : public stream_test<Place> {
 protected:
  /// Copies a host table to the device.
  struct device_table {
    row_dtype type;
    device_array<std::byte> stored;
    device_array<float> first, second;

    table_view view() const { return {stored.data(), type}; }
    optimizer_state_view state() const { return {first.data(), second.data()}; }
  };

  device_table copy_of(const host_table& from) {
    return {from.type, this->put(from.stored), this->put(from.first), this->put(from.second)};
  }

  void expect_same(const device_table& got, const host_table& expected) {
    ASSERT_EQ(this->get(got.stored), expected.stored);
    ASSERT_TRUE(same_bits(this->get(got.first), expected.first));
    ASSERT_TRUE(same_bits(this->get(got.second), expected.second));
  }

  /// Collects and groups the gradient; its device memory stays valid until the next call.
  void collect(table_gradient& gradient, std::int64_t rows, const std::vector<gradient_source>& sources) {
    kept_.clear();
    gradient.clear(rows);
    for (const gradient_source& one : sources) {
      kept_.push_back(
          {this->put(one.bags.indices), this->put(one.bags.offsets), this->put(one.bags.weights), this->put(one.grad)});
      const device_source& on_device = kept_.back();
      gradient.add(one.mode,
                   {{on_device.indices.data(), on_device.indices.size()},
                    {on_device.offsets.data(), on_device.offsets.size()},
                    {on_device.weights.data(), on_device.weights.size()}},
                   on_device.grad.data(), one.stride);
    }
    gradient.group();
  }

  std::int64_t bad_row(table_gradient& gradient) {
    this->on().synchronize();
    return gradient.bad_row();
  }

  std::unique_ptr<table_gradient> gradient() { return this->on().make_table_gradient(); }

 private:
  struct device_source {
    device_array<std::int64_t> indices, offsets;
    device_array<float> weights, grad;
  };
  std::vector<device_source> kept_;
};
TYPED_TEST_SUITE(StreamTableGradient, each_device, device_names);

TYPED_TEST(StreamTableGradient, UpdatesRowsWithTheProcessorsBits) {
  constexpr std::size_t rows = 13;
  const auto gradient = this->gradient();
  for (const optimizer_case& c : table_optimizers()) {
    for (const row_dtype type : {row_dtype::f32, row_dtype::f16, row_dtype::bf16}) {
      for (const std::size_t dim : {1, 4, 7, 64, 128, 132, 515, 516}) {
        if (dim > 128 && type == row_dtype::f16) continue;
        for (const bool every_row : {false, true}) {
          SCOPED_TRACE(c.name + " type " + std::to_string(static_cast<int>(type)) + " dim " + std::to_string(dim) +
                       (every_row ? " every row" : ""));
          source_of_numbers random(static_cast<std::uint32_t>(dim));
          host_table expected(c, type, random.numbers(rows * dim));
          const auto got = this->copy_of(expected);
          for (int t = 1; t <= 2; ++t) {
            const auto sources = make_sources(random, rows, dim, dim % 4 == 0 ? 4 : 1);
            gradients by_hand = grouped_by_hand(sources);
            std::int64_t bad_row = -1;
            ASSERT_TRUE(update_rows(constants_of(c, t), rows, dim, expected.view(), expected.state(), by_hand.view(),
                                    every_row, &bad_row));
            this->collect(*gradient, rows, sources);
            gradient->apply(constants_of(c, t), dim, got.view(), got.state(), by_hand.scale, every_row);
            ASSERT_EQ(this->bad_row(*gradient), -1);
          }
          this->expect_same(got, expected);
        }
      }
    }
  }
}

TYPED_TEST(StreamTableGradient, FollowsTheFormula) {
  constexpr std::size_t rows = 11;
  constexpr std::size_t dim = 5;
  const auto gradient = this->gradient();
  for (const optimizer_case& c : optimizer_cases()) {
    source_of_numbers random(5);
    const std::vector<float> initial = random.numbers(rows * dim);
    const auto table = this->copy_of(host_table(c, row_dtype::f32, initial));
    optimized<double> expected(c, initial);
    for (int t = 1; t <= 3; ++t) {
      const auto sources = make_sources(random, rows, dim, 0);
      this->collect(*gradient, rows, sources);
      gradient->apply(constants_of(c, t), dim, table.view(), table.state(), 0.5F, true);
      ASSERT_EQ(this->bad_row(*gradient), -1);
      std::vector<double> grad(initial.size());
      for (const gradient_source& one : sources) {
        const bool of_one = one.bags.offsets.empty();
        const bags_view bags = one.bags.view();
        for (std::size_t bag = 0; bag < (of_one ? bags.indices.size() : bags.size()); ++bag) {
          const std::size_t begin = of_one ? bag : bags.begin_of(bag);
          const std::size_t end = of_one ? bag + 1 : bags.end_of(bag);
          for (std::size_t i = begin; i < end; ++i) {
            double scale = bags.weights.empty() ? 1.0 : static_cast<double>(bags.weights[i]);
            if (one.mode == pooling::mean) scale = 1.0 / static_cast<double>(end - begin);
            for (std::size_t d = 0; d < dim; ++d) {
              grad[static_cast<std::size_t>(bags.indices[i]) * dim + d] +=
                  0.5 * scale * static_cast<double>(one.grad[bag * one.stride + d]);
            }
          }
        }
      }
      for (std::size_t i = 0; i < grad.size(); ++i) reference_step(c, t, expected, i, grad[i]);
    }
    const auto* const weights = reinterpret_cast<const float*>(table.stored.data());
    const std::vector<float> got = this->get(weights, initial.size());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected.weights[i], 2e-4) << c.name;
  }
}

TYPED_TEST(StreamTableGradient, TakesKeysOfAnyWidth) {
  // The table's height determines how many bits are sorted; only existing rows are touched.
  const auto gradient = this->gradient();
  for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{2}, std::int64_t{256}, std::int64_t{257},
                                  std::int64_t{1} << 32, (std::int64_t{1} << 32) + 1, std::int64_t{1} << 40}) {
    std::vector<gradient_source> sources(1);
    for (const std::int64_t row : {rows - 1, rows / 2, std::int64_t{0}, rows - 1, rows / 3}) {
      sources[0].bags.indices.push_back(row);
    }
    sources[0].stride = 1;
    sources[0].grad = {1.0F, 2.0F, 4.0F, 8.0F, 16.0F};
    std::map<std::int64_t, double> sums;
    for (std::size_t i = 0; i < 5; ++i) sums[sources[0].bags.indices[i]] += static_cast<double>(sources[0].grad[i]);
    this->collect(*gradient, rows, sources);
    std::vector<double> expected;
    for (const auto& [row, sum] : sums) expected.push_back(sum * sum);
    const auto got = gradient->squared_norms(1, 1.0F);
    EXPECT_EQ(std::vector<double>(got.begin(), got.end()), expected) << rows << " rows";
  }
}

TYPED_TEST(StreamTableGradient, TellsTheNormsOfTouchedRows) {
  constexpr std::size_t rows = 13;
  const auto gradient = this->gradient();
  for (const std::size_t dim : {1, 8, 33, 128, 600}) {
    source_of_numbers random(static_cast<std::uint32_t>(dim));
    auto sources = make_sources(random, rows, dim, 0);
    for (const bool bad : {false, true}) {
      if (bad) sources[1].grad[dim - 1] = std::numeric_limits<float>::infinity();
      gradients by_hand = grouped_by_hand(sources);
      std::vector<double> expected(by_hand.rows.size());
      row_squared_norms(dim, by_hand.view(), expected.data());
      this->collect(*gradient, rows, sources);
      const auto there = gradient->squared_norms(dim, by_hand.scale);
      const std::vector<double> got(there.begin(), there.end());
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (std::isfinite(expected[i])) {
          ASSERT_NEAR(got[i], expected[i], 1e-13 * expected[i]);
        } else {
          ASSERT_FALSE(std::isfinite(got[i]));
        }
      }
      EXPECT_EQ(std::isfinite(got[0]), !bad);
      if (bad) continue;
      // Unaligned gradients give the same bits.
      this->collect(*gradient, rows, spread_out(sources, dim));
      EXPECT_TRUE(std::ranges::equal(gradient->squared_norms(dim, by_hand.scale), got));
    }
  }
}

TYPED_TEST(StreamTableGradient, NamesTheSmallestRowThatIsNotFiniteAndLeavesItAlone) {
  constexpr std::size_t rows = 200;
  const auto gradient = this->gradient();
  for (const optimizer_case& c : table_optimizers()) {
    for (const std::size_t dim : {1, 16, 516}) {
      for (const bool every_row : {false, true}) {
        source_of_numbers random(static_cast<std::uint32_t>(dim));
        const host_table before(c, row_dtype::f32, random.numbers(rows * dim));
        const auto table = this->copy_of(before);
        std::vector<gradient_source> sources(1);
        sources[0].stride = dim;
        for (const std::int64_t row : {150, 7, 90, 30, 8}) sources[0].bags.indices.push_back(row);
        sources[0].grad = random.numbers(5 * dim);
        sources[0].grad[dim - 1] = std::numeric_limits<float>::quiet_NaN();            // row 150
        sources[0].grad[3 * dim + dim / 2] = -std::numeric_limits<float>::infinity();  // row 30
        this->collect(*gradient, rows, sources);
        gradient->apply(constants_of(c, 1), dim, table.view(), table.state(), 1.0F, every_row);
        ASSERT_EQ(this->bad_row(*gradient), 30) << c.name;
        const std::vector<std::byte> stored = this->get(table.stored);
        const std::size_t row_bytes = dim * sizeof(float);
        const auto same = [&](std::size_t row) {
          return std::memcmp(&stored[row * row_bytes], &before.stored[row * row_bytes], row_bytes) == 0;
        };
        EXPECT_TRUE(same(30));
        EXPECT_TRUE(same(150));
        EXPECT_FALSE(same(7));
      }
    }
  }
}

TYPED_TEST(StreamTableGradient, SumsLongRowsWithTheProcessorsBits) {
  constexpr std::size_t rows = 5;
  const optimizer_case c{"sgd", optimizer_kind::sgd};
  const auto gradient = this->gradient();
  // Bag lengths of rows 0 to 4.
  const std::vector<std::vector<std::size_t>> lengths = {{511, 0, 255, 256, 1},
                                                         {300, 512, 511, 513, 2},
                                                         {1, 767, 768, 1300, 600},
                                                         {0, 5000, 0, 0, 3},
                                                         {512, 512, 512, 512, 512}};
  for (const auto& wanted : lengths) {
    for (const std::size_t dim : {3, 16, 132}) {
      source_of_numbers random(static_cast<std::uint32_t>(dim));
      std::vector<gradient_source> sources(2);
      std::vector<std::size_t> left = wanted;
      for (std::size_t i = 0; std::any_of(left.begin(), left.end(), [](std::size_t n) { return n > 0; }); ++i) {
        const std::size_t row = random.below(rows);
        if (left[row] == 0) continue;
        --left[row];
        sources[i % 2].bags.indices.push_back(static_cast<std::int64_t>(row));
      }
      for (gradient_source& one : sources) {
        one.stride = dim;
        one.grad = random.numbers(one.bags.indices.size() * dim);
      }
      host_table expected(c, row_dtype::f32, random.numbers(rows * dim));
      const auto got = this->copy_of(expected);
      gradients by_hand = grouped_by_hand(sources);
      std::int64_t bad_row = -1;
      ASSERT_TRUE(update_rows(constants_of(c, 1), rows, dim, expected.view(), {}, by_hand.view(), false, &bad_row));
      this->collect(*gradient, rows, sources);
      const auto norms = gradient->squared_norms(dim, by_hand.scale);
      std::vector<double> expected_norms(norms.size());
      row_squared_norms(dim, by_hand.view(), expected_norms.data());
      for (std::size_t i = 0; i < norms.size(); ++i) ASSERT_NEAR(norms[i], expected_norms[i], 1e-5 * expected_norms[i]);
      gradient->apply(constants_of(c, 1), dim, got.view(), {}, by_hand.scale, false);
      ASSERT_EQ(this->bad_row(*gradient), -1);
      const std::vector<float> floats = this->get(reinterpret_cast<const float*>(got.stored.data()), rows * dim);
      const auto* const expected_floats = reinterpret_cast<const float*>(expected.stored.data());
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t i = row * dim; i < (row + 1) * dim; ++i) {
          ASSERT_EQ(floats[i], expected_floats[i]) << "row " << row << " of " << wanted[row];
        }
      }
    }
  }
}

TYPED_TEST(StreamTableGradient, TakesNothing) {
  const optimizer_case c{"momentum", optimizer_kind::sgd, 0.1, 0, 0.9};
  const auto gradient = this->gradient();
  host_table expected(c, row_dtype::f32, {1, 2, 3, 4});
  expected.first = {1, 1, 1, 1};
  const auto got = this->copy_of(expected);
  this->collect(*gradient, 2, {});
  EXPECT_TRUE(gradient->squared_norms(2, 1.0F).empty());
  gradient->apply(constants_of(c, 1), 2, got.view(), got.state(), 1.0F, false);
  EXPECT_EQ(this->bad_row(*gradient), -1);
  this->expect_same(got, expected);
  // If all rows are updated, a zero gradient still changes the momentum.
  gradients none;
  none.close();
  std::int64_t bad_row = -1;
  ASSERT_TRUE(update_rows(constants_of(c, 1), 2, 2, expected.view(), expected.state(), none.view(), true, &bad_row));
  gradient->apply(constants_of(c, 1), 2, got.view(), got.state(), 1.0F, true);
  EXPECT_EQ(this->bad_row(*gradient), -1);
  this->expect_same(got, expected);
}

}  // namespace
}  // namespace troupe::kernels::test::stream_table_gradient_test
