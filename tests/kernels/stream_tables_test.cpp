// A stream's lookups and steps of several tables at once: bitwise as for each table alone, with as many launches as for
// one.

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/emulated_cuda/counts.hpp"
#include "tests/kernels/gradient_sources.hpp"
#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_tables_test {
namespace {

/// One table's lookup: the processor's result for it alone, and the device's output.
struct lookup {
  pooling mode;
  std::vector<std::byte> stored;
  bag_batch bags;
  std::vector<float> expected;
  device_array<std::byte> table;
  device_array<std::int64_t> indices, offsets;
  device_array<float> weights, out;

  std::size_t count() const { return bags.offsets.empty() ? bags.indices.size() : bags.offsets.size(); }
};

template <class Place>
class StreamTables : public stream_test<Place> {
 protected:
  lookup make_lookup(source_of_numbers& random, std::size_t rows, std::size_t dim, row_dtype type, int kind) {
    constexpr pooling modes[] = {pooling::sum, pooling::sum, pooling::mean, pooling::max, pooling::sum};
    lookup one{modes[kind], std::vector<std::byte>(rows * dim * size_of(type)), {}, {}, {}, {}, {}, {}, {}};
    encode(rows * dim, random.numbers(rows * dim).data(), {one.stored.data(), type});
    one.bags = make_bags(random, 3 + random.below(9), rows, kind == 1);
    if (kind == 4) one.bags.offsets.clear();
    one.expected.resize(one.count() * dim);
    const const_table_view table(one.stored.data(), type);
    if (kind == 4)
      host_stream().gather_rows(table, dim, one.bags.indices, one.expected.data());
    else
      host_stream().embedding_bag_forward(one.mode, table, dim, one.bags.view(), one.expected.data(), dim);
    one.table = this->put(one.stored);
    one.indices = this->put(one.bags.indices);
    one.offsets = this->put(one.bags.offsets);
    one.weights = this->put(one.bags.weights);
    one.out = this->template buffer<float>(one.expected.size());
    return one;
  }

  static bag_pass pass_of(const lookup& one, std::size_t dim) {
    return {one.mode,
            one.table.data(),
            {{one.indices.data(), one.indices.size()},
             {one.offsets.data(), one.offsets.size()},
             {one.weights.data(), one.weights.size()}},
            one.out.data(),
            dim};
  }

  /// A table of a step on host and device, with its sources.
  struct stepped {
    optimizer_case optimizer;
    std::size_t rows;
    float scale;
    host_table expected;
    device_array<std::byte> stored;
    device_array<float> first, second;
    std::vector<gradient_source> sources;
    bool takes_part = true;

    table_step step(int t) const {
      return {constants_of(optimizer, t), takes_part ? stored.data() : nullptr, {first.data(), second.data()}, scale};
    }
  };

  stepped make_table(source_of_numbers& random, const optimizer_case& c, row_dtype type, std::size_t rows,
                     std::size_t dim) {
    host_table expected(c, type, random.numbers(rows * dim));
    stepped made{c, rows, 1.0F / static_cast<float>(rows), expected, {}, {}, {}, {}};
    made.stored = this->put(expected.stored);
    made.first = this->put(expected.first);
    made.second = this->put(expected.second);
    return made;
  }

  /// Adds the sources of all tables, first the first source of each; their memory stays valid until the next call.
  void collect(table_gradient& gradient, const std::vector<stepped>& tables) {
    kept_.clear();
    gradient.clear();
    for (const stepped& one : tables) gradient.add_table(static_cast<std::int64_t>(one.rows));
    std::size_t most = 0;
    for (const stepped& one : tables) most = std::max(most, one.sources.size());
    for (std::size_t rank = 0; rank < most; ++rank) {
      for (std::size_t t = 0; t < tables.size(); ++t) {
        if (rank >= tables[t].sources.size()) continue;
        const gradient_source& from = tables[t].sources[rank];
        kept_.push_back({this->put(from.bags.indices), this->put(from.bags.offsets), this->put(from.bags.weights),
                         this->put(from.grad)});
        const device_source& there = kept_.back();
        gradient.add(t, from.mode,
                     {{there.indices.data(), there.indices.size()},
                      {there.offsets.data(), there.offsets.size()},
                      {there.weights.data(), there.weights.size()}},
                     there.grad.data(), from.stride);
      }
    }
    gradient.group();
  }

  std::int64_t apply(table_gradient& gradient, const std::vector<stepped>& tables, std::size_t dim, row_dtype type,
                     int t, bool every_row) {
    std::vector<table_step> steps;
    for (const stepped& one : tables) steps.push_back(one.step(t));
    gradient.apply(dim, type, steps, every_row);
    this->on().synchronize();
    return gradient.bad_row();
  }

 private:
  struct device_source {
    device_array<std::int64_t> indices, offsets;
    device_array<float> weights, grad;
  };
  std::vector<device_source> kept_;
};
TYPED_TEST_SUITE(StreamTables, each_device, device_names);

/// A source with `count` indices, nearly all for row 1.
gradient_source long_source(source_of_numbers& random, std::size_t count, std::size_t rows, std::size_t dim) {
  gradient_source made;
  for (std::size_t i = 0; i < count; ++i)
    made.bags.indices.push_back(static_cast<std::int64_t>(i % 50 == 0 ? random.below(rows) : 1));
  made.stride = dim;
  made.grad = random.numbers(count * dim);
  return made;
}

TYPED_TEST(StreamTables, LookUpAsEachAlone) {
  for (const row_dtype type : {row_dtype::f32, row_dtype::bf16}) {
    for (const std::size_t dim : {1, 12, 16, 33, 128}) {
      source_of_numbers random(static_cast<std::uint32_t>(dim));
      // More lookups of one kind than a launch handles, then some of every kind.
      std::vector<lookup> all;
      for (int i = 0; i < 75; ++i)
        all.push_back(this->make_lookup(random, 2 + random.below(30), dim, type, i < 67 ? 0 : i % 5));
      std::vector<bag_pass> passes;
      for (const lookup& one : all) passes.push_back(this->pass_of(one, dim));
      this->on().embedding_bags_forward(dim, type, passes);
      for (std::size_t i = 0; i < all.size(); ++i)
        ASSERT_TRUE(same_bits(this->get(all[i].out), all[i].expected)) << "table " << i << " dim " << dim;
    }
  }
}

TYPED_TEST(StreamTables, LookUpNothing) {
  this->on().embedding_bags_forward(4, row_dtype::f32, {});
  const bag_pass none{};
  this->on().embedding_bags_forward(4, row_dtype::f32, {&none, 1});
  this->on().synchronize();
}

TYPED_TEST(StreamTables, StepWithTheBitsOfEachAlone) {
  const auto gradient = this->on().make_table_gradient();
  for (const row_dtype type : {row_dtype::f32, row_dtype::bf16}) {
    for (const std::size_t dim : {3, 16, 132}) {
      for (const bool every_row : {false, true}) {
        SCOPED_TRACE("dim " + std::to_string(dim) + (every_row ? " every row" : ""));
        source_of_numbers random(static_cast<std::uint32_t>(dim));
        std::vector<typename TestFixture::stepped> tables;
        for (const optimizer_case& c : table_optimizers())
          tables.push_back(this->make_table(random, c, type, 3 + random.below(20), dim));
        for (int t = 1; t <= 2; ++t) {
          for (std::size_t i = 0; i < tables.size(); ++i) {
            tables[i].sources = make_sources(random, tables[i].rows, dim, 0);
            if (i % 3 == 0) tables[i].sources.push_back(long_source(random, 700, tables[i].rows, dim));
            if (i == 4) tables[i].sources.clear();
            tables[i].takes_part = i != 5;
          }
          this->collect(*gradient, tables);
          for (auto& one : tables) {
            if (!one.takes_part) continue;
            gradients by_hand = grouped_by_hand(one.sources);
            by_hand.scale = one.scale;
            std::int64_t bad_row = -1;
            ASSERT_TRUE(update_rows(constants_of(one.optimizer, t), static_cast<std::int64_t>(one.rows), dim,
                                    one.expected.view(), one.expected.state(), by_hand.view(), every_row, &bad_row));
          }
          ASSERT_EQ(this->apply(*gradient, tables, dim, type, t, every_row), -1);
        }
        for (std::size_t i = 0; i < tables.size(); ++i) {
          ASSERT_EQ(this->get(tables[i].stored), tables[i].expected.stored) << "table " << i;
          ASSERT_TRUE(same_bits(this->get(tables[i].first), tables[i].expected.first)) << "table " << i;
          ASSERT_TRUE(same_bits(this->get(tables[i].second), tables[i].expected.second)) << "table " << i;
        }
      }
    }
  }
}

TYPED_TEST(StreamTables, TellTheNormsOfEach) {
  constexpr std::size_t dim = 16;
  const auto gradient = this->on().make_table_gradient();
  source_of_numbers random(3);
  std::vector<typename TestFixture::stepped> tables;
  for (std::size_t i = 0; i < 4; ++i) {
    tables.push_back(this->make_table(random, {"sgd", optimizer_kind::sgd}, row_dtype::f32, 5 + i, dim));
    if (i != 1) tables[i].sources = make_sources(random, tables[i].rows, dim, 0);
  }
  this->collect(*gradient, tables);
  const auto norms = gradient->norms_by_table(dim, 0.25F);
  ASSERT_EQ(norms.size(), tables.size());
  for (std::size_t i = 0; i < tables.size(); ++i) {
    gradients by_hand = grouped_by_hand(tables[i].sources);
    by_hand.scale = 0.25F;
    std::vector<double> expected(by_hand.rows.size());
    row_squared_norms(dim, by_hand.view(), expected.data());
    ASSERT_EQ(norms[i].size(), expected.size()) << "table " << i;
    for (std::size_t r = 0; r < expected.size(); ++r) ASSERT_NEAR(norms[i][r], expected[r], 1e-13 * expected[r]);
  }
}

TYPED_TEST(StreamTables, CountABadRowOverAllTables) {
  constexpr std::size_t dim = 4;
  const auto gradient = this->on().make_table_gradient();
  for (const bool every_row : {false, true}) {
    source_of_numbers random(3);
    std::vector<typename TestFixture::stepped> tables;
    for (const std::size_t rows : {7, 5, 9}) {
      tables.push_back(this->make_table(random, {"sgd", optimizer_kind::sgd}, row_dtype::f32, rows, dim));
      tables.back().sources = make_sources(random, rows, dim, 0);
    }
    tables[1].sources[1].grad[2 * dim + 1] = std::numeric_limits<float>::infinity();  // the source's last row
    tables[2].sources[1].grad[0] = std::numeric_limits<float>::quiet_NaN();
    this->collect(*gradient, tables);
    EXPECT_EQ(this->apply(*gradient, tables, dim, row_dtype::f32, 1, every_row), 7 + 4);
    tables[1].takes_part = false;
    EXPECT_EQ(this->apply(*gradient, tables, dim, row_dtype::f32, 1, every_row), 7 + 5);
  }
}

using StreamTablesGpu = StreamTables<on_cuda>;

TEST_F(StreamTablesGpu, TakeAsManyLaunchesAsOne) {
  if (!emulated_cuda::counts_now()) GTEST_SKIP() << "skipped: only the emulation counts launches";
  constexpr std::size_t dim = 16;
  const auto launches = [] { return emulated_cuda::counts_now()->launches; };
  const auto gradient = this->on().make_table_gradient();
  std::vector<std::vector<std::uint64_t>> taken;
  for (const std::size_t count : {1, 2, 10}) {
    source_of_numbers random(3);
    std::vector<lookup> lookups;
    std::vector<bag_pass> passes;
    std::vector<stepped> tables;
    for (std::size_t i = 0; i < count; ++i) {
      lookups.push_back(make_lookup(random, 9, dim, row_dtype::f32, 0));
      passes.push_back(pass_of(lookups.back(), dim));
      tables.push_back(make_table(random, {"adagrad", optimizer_kind::adagrad}, row_dtype::f32, 600, dim));
      for (int rank = 0; rank < 3; ++rank) tables.back().sources.push_back(long_source(random, 300, 600, dim));
    }
    std::vector<std::uint64_t> now = {launches()};
    on().embedding_bags_forward(dim, row_dtype::f32, passes);
    now.push_back(launches());
    collect(*gradient, tables);
    now.push_back(launches());
    gradient->norms_by_table(dim, 1);
    now.push_back(launches());
    ASSERT_EQ(apply(*gradient, tables, dim, row_dtype::f32, 1, false), -1);
    now.push_back(launches());
    std::adjacent_difference(now.begin(), now.end(), now.begin());
    taken.emplace_back(now.begin() + 1, now.end());
  }
  // Lookup; list, sort, mark, sum and rows; long rows, norms and table ends; update and the lowest bad row.
  for (const auto& of_count : taken) EXPECT_EQ(of_count, (std::vector<std::uint64_t>{1, 5, 3, 2}));
}

}  // namespace
}  // namespace troupe::kernels::test::stream_tables_test
