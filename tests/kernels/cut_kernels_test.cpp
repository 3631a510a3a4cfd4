// Kernels that are split into parts for idle threads give the same bits as without idle threads, when they run unsplit;
// other tests check those results.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/embedding_bag.hpp"
#include "kernels/optimizer.hpp"
#include "tests/kernels/helping_threads.hpp"
#include "tests/kernels/optimizer_support.hpp"
#include "tests/kernels/row_gradients.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::kernels::test::cut_kernels_test {
namespace {

constexpr std::size_t dims[] = {64, 100};  // one block, and several
constexpr float untouched = 12345.0F;

/// Calls `work` with three threads that help as they can, and with one that runs all parts itself, the last one first.
/// Expects that parts are offered to each.
void with_help(const std::function<void()>& work) {
  const auto expect_offers = [&](const auto& threads, const char* who) {
    SCOPED_TRACE(who);
    const idle_threads_in_use in_use(threads);
    work();
    EXPECT_GT(threads->offers(), 0U) << "it was not cut";
  };
  expect_offers(std::make_shared<helping_threads>(3), "three threads");
  expect_offers(std::make_shared<hasty_thread>(), "hasty thread");
}

/// A table's numbers in the dtype of its rows.
struct stored_table {
  std::vector<float> floats;
  std::vector<std::uint16_t> words;
  row_dtype type;

  stored_table(const std::vector<float>& numbers, row_dtype stored_as) : type(stored_as) {
    if (type == row_dtype::f32) {
      floats = numbers;
    } else {
      words.resize(numbers.size());
      encode(numbers.size(), numbers.data(), view());
    }
  }
  table_view view() {
    if (type == row_dtype::f32) return floats.data();
    return {words.data(), type};
  }
  const_table_view view() const {
    if (type == row_dtype::f32) return floats.data();
    return {words.data(), type};
  }
};

constexpr row_dtype row_types[] = {row_dtype::f32, row_dtype::bf16};
constexpr std::size_t looked_up_rows = 500;

/// Bags of zero to eleven indices, and one that is longer than a part.
bag_batch ragged_bags(source_of_numbers& random, bool weighted) {
  constexpr std::size_t batch = 6000;
  bag_batch bags;
  for (std::size_t b = 0; b < batch; ++b) {
    bags.offsets.push_back(static_cast<std::int64_t>(bags.indices.size()));
    const std::size_t length = b == batch / 3 ? 10'000 : random.below(12);
    for (std::size_t i = 0; i < length; ++i)
      bags.indices.push_back(static_cast<std::int64_t>(random.below(looked_up_rows)));
  }
  if (weighted) bags.weights = random.numbers(bags.indices.size());
  return bags;
}

TEST(CutKernels, PoolBagsToTheSameBits) {
  const std::pair<pooling, bool> cases[] = {
      {pooling::sum, false}, {pooling::sum, true}, {pooling::mean, false}, {pooling::max, false}};
  for (const row_dtype type : row_types) {
    for (const std::size_t dim : dims) {
      for (const auto& [mode, weighted] : cases) {
        SCOPED_TRACE("dim " + std::to_string(dim) + ", mode " + std::to_string(static_cast<int>(mode)) +
                     (weighted ? ", weighted" : ""));
        source_of_numbers random(static_cast<std::uint32_t>(dim));
        const stored_table table(random.numbers(looked_up_rows * dim), type);
        const bag_batch bags = ragged_bags(random, weighted);
        const std::size_t stride = dim + 3;
        const auto pooled = [&, mode = mode] {
          std::vector<float> out(bags.view().size() * stride, untouched);
          host_stream().embedding_bag_forward(mode, table.view(), dim, bags.view(), out.data(), stride);
          return out;
        };
        const std::vector<float> expected = pooled();
        with_help([&] { EXPECT_TRUE(same_bits(pooled(), expected)); });
      }
    }
  }
}

TEST(CutKernels, GatherTheSameRows) {
  for (const row_dtype type : row_types) {
    for (const std::size_t dim : dims) {
      SCOPED_TRACE("dim " + std::to_string(dim));
      source_of_numbers random(static_cast<std::uint32_t>(dim));
      const stored_table table(random.numbers(looked_up_rows * dim), type);
      std::vector<std::int64_t> indices(20'001);
      for (std::int64_t& index : indices) index = static_cast<std::int64_t>(random.below(looked_up_rows));
      const auto gathered = [&] {
        std::vector<float> out(indices.size() * dim + 1, untouched);
        host_stream().gather_rows(table.view(), dim, indices, out.data());
        EXPECT_EQ(out.back(), untouched);
        return out;
      };
      const std::vector<float> expected = gathered();
      with_help([&] { EXPECT_TRUE(same_bits(gathered(), expected)); });
    }
  }
}

constexpr std::size_t updated_rows = 8000;
constexpr std::size_t bags_of_a_rank = 300;

/// Gradients of two ranks for every second row below 7000; the updates of all rows then have a part without gradients.
class two_ranks {
 public:
  two_ranks(source_of_numbers& random, std::size_t dim)
      : grads_{random.numbers(bags_of_a_rank * dim), random.numbers(bags_of_a_rank * dim)} {
    for (std::size_t row = 1; row < 7000; row += 2) {
      grouped_.add_row(row);
      const std::size_t of_each = 1 + random.below(4);
      for (std::uint32_t rank = 0; rank < grads_.size(); ++rank)
        for (std::size_t i = 0; i < of_each; ++i) grouped_.occurrences.push_back(any_bag(random, rank));
    }
    grouped_.close();
    for (const auto& grad : grads_) {
      grouped_.sources.push_back(grad.data());
      grouped_.strides.push_back(dim);
    }
  }
  two_ranks(const two_ranks&) = delete;
  two_ranks& operator=(const two_ranks&) = delete;

  row_gradients view() const { return grouped_.view(); }

  /// Makes only the gradient of touched row `i` a NaN.
  void spoil(std::size_t i) {
    grouped_.occurrences[grouped_.starts[i]].scale = std::numeric_limits<float>::quiet_NaN();
  }

 private:
  static occurrence any_bag(source_of_numbers& random, std::uint32_t rank) {
    return {rank, static_cast<std::uint32_t>(random.below(bags_of_a_rank)), random.number()};
  }

  std::vector<std::vector<float>> grads_;
  gradients grouped_;
};

std::vector<optimizer_case> table_optimizers() {
  auto all = optimizer_cases();
  all.push_back({"rowwise_adagrad", optimizer_kind::rowwise_adagrad});
  return all;
}

/// A table and its optimizer's state after two steps.
struct updated {
  stored_table table;
  optimized<float> state;

  updated(const optimizer_case& c, row_dtype type, std::size_t dim, const two_ranks& grads, bool every_row,
          const std::vector<float>& initial)
      : table(initial, type), state(c, initial) {
    for (int t = 1; t <= 2; ++t) {
      std::int64_t bad_row = -1;
      EXPECT_TRUE(update_rows(constants_of(c, t), updated_rows, dim, table.view(), state.view(), grads.view(),
                              every_row, &bad_row));
      EXPECT_EQ(bad_row, -1);
    }
  }
  bool has_bits_of(const updated& other) const {
    return same_bits(table.floats, other.table.floats) && table.words == other.table.words &&
           same_bits(state.first, other.state.first) && same_bits(state.second, other.state.second);
  }
};

TEST(CutKernels, UpdateRowsToTheSameBits) {
  for (const std::size_t dim : dims) {
    source_of_numbers random(static_cast<std::uint32_t>(dim));
    const two_ranks grads(random, dim);
    const std::vector<float> initial = random.numbers(updated_rows * dim);
    for (const optimizer_case& c : table_optimizers()) {
      for (const bool every_row : {false, true}) {
        SCOPED_TRACE(c.name + ", dim " + std::to_string(dim) + (every_row ? ", every row" : ""));
        const row_dtype type = c.kind == optimizer_kind::adagrad ? row_dtype::bf16 : row_dtype::f32;
        const updated expected(c, type, dim, grads, every_row, initial);
        with_help([&] { EXPECT_TRUE(updated(c, type, dim, grads, every_row, initial).has_bits_of(expected)); });
      }
    }
  }
}

TEST(CutKernels, NameTheFirstOfTheRowsThatAreNotFinite) {
  constexpr std::size_t dim = 64;
  source_of_numbers random(1);
  const std::vector<float> initial = random.numbers(updated_rows * dim);
  for (const auto& [earlier, later] : {std::pair<std::size_t, std::size_t>{3, 3400}, {1800, 3499}, {0, 1}}) {
    two_ranks grads(random, dim);
    grads.spoil(earlier);
    grads.spoil(later);
    for (const optimizer_case& c : table_optimizers()) {
      for (const bool every_row : {false, true}) {
        SCOPED_TRACE(c.name + ", row " + std::to_string(earlier) + (every_row ? ", every row" : ""));
        with_help([&, first = earlier] {
          optimized<float> table(c, initial);
          std::int64_t bad_row = -1;
          EXPECT_FALSE(update_rows(constants_of(c, 1), updated_rows, dim, table.weights.data(), table.view(),
                                   grads.view(), every_row, &bad_row));
          EXPECT_EQ(bad_row, grads.view().rows[first]);
        });
      }
    }
  }
}

TEST(CutKernels, GiveTheSameSquaredNorms) {
  for (const std::size_t dim : dims) {
    source_of_numbers random(static_cast<std::uint32_t>(dim));
    const two_ranks grads(random, dim);
    const auto norms = [&] {
      std::vector<double> out(grads.view().rows.size());
      row_squared_norms(dim, grads.view(), out.data());
      return out;
    };
    const std::vector<double> expected = norms();
    with_help([&] { EXPECT_EQ(norms(), expected) << "dim " << dim; });
  }
}

TEST(CutKernels, AreNoneWhereTheWorkIsLittle) {
  const auto threads = std::make_shared<hasty_thread>();
  const idle_threads_in_use in_use(threads);
  source_of_numbers random(1);
  const std::vector<float> table = random.numbers(10 * 64);
  const bag_batch bags = make_bags(random, 30, 10, false);
  std::vector<float> out(bags.indices.size() * 64);
  host_stream().embedding_bag_forward(pooling::sum, table.data(), 64, bags.view(), out.data(), 64);
  host_stream().gather_rows(table.data(), 64, bags.indices, out.data());
  EXPECT_EQ(threads->offers(), 0U);
}

TEST(SideBySide, PartsThatAreWorthItAreDoneByIdleThreadsToo) {
  const auto threads = std::make_shared<hasty_thread>();
  const idle_threads_in_use in_use(threads);
  for (const auto& [operations, helped] :
       {std::pair<std::size_t, bool>{0, false}, {(1 << 23) - 1, false}, {1 << 23, true}}) {
    SCOPED_TRACE(operations);
    const auto caller = std::this_thread::get_id();
    std::vector<int> times(5);
    std::vector<std::size_t> said;
    std::vector<std::thread::id> by(times.size());
    host_stream().side_by_side(
        times.size(), operations,
        [&](std::size_t i) {
          ++times[i];
          by[i] = std::this_thread::get_id();
        },
        [&](std::size_t i) {
          EXPECT_EQ(std::this_thread::get_id(), caller);
          said.push_back(i);
        });
    EXPECT_EQ(times, std::vector<int>(5, 1));
    EXPECT_EQ(said, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
    for (const std::thread::id& one : by) EXPECT_EQ(one != caller, helped);
  }
}

}  // namespace
}  // namespace troupe::kernels::test::cut_kernels_test
