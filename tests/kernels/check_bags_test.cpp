// Covers every fault that `check_bags` finds, and batches without faults.

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "kernels/embedding_bag.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::kernels::test::check_bags_test {
namespace {

using kind = bags_fault::kind;

constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();

void expect_fault(const bag_batch& bags, std::int64_t rows, kind what, std::size_t bag, std::int64_t value) {
  const bags_fault fault = check_bags(bags.view(), rows);
  EXPECT_EQ(fault.what, what);
  EXPECT_EQ(fault.bag, bag);
  EXPECT_EQ(fault.value, value);
}

void expect_valid(const bag_batch& bags, std::int64_t rows) { expect_fault(bags, rows, kind::none, 0, 0); }

TEST(CheckBags, AcceptsValidBatches) {
  expect_valid({{}, {}, {}}, 1);
  expect_valid({{}, {0, 0, 0}, {}}, 0);
  expect_valid({{0, 9, 3}, {0, 0, 2, 3, 3}, {}}, 10);
  expect_valid({{0, 9, 3}, {0}, {1, 2, 3}}, 10);
  expect_valid({{highest - 1}, {0}, {}}, highest);
}

TEST(CheckBags, FindsTheFirstIndexOutOfRangeAndItsBag) {
  expect_fault({{0, 1, 10, 11}, {0, 2, 2}, {}}, 10, kind::index, 2, 10);
  expect_fault({{0, -1, 3}, {0, 0, 1, 3}, {}}, 10, kind::index, 2, -1);
  expect_fault({{0, 1, 12}, {0, 1}, {}}, 10, kind::index, 1, 12);
  for (const std::int64_t index : {lowest, lowest + 1, highest, std::int64_t{-1}, std::int64_t{10}}) {
    expect_fault({{3, index}, {0, 1}, {}}, 10, kind::index, 1, index);
  }
  expect_fault({{0}, {0}, {}}, 0, kind::index, 0, 0);
}

TEST(CheckBags, FindsAnIndexAtAnyPosition) {
  for (std::size_t position = 0; position < 67; ++position) {
    bag_batch bags{std::vector<std::int64_t>(67, 4), {0, 30}, {}};
    bags.indices[position] = 5;
    expect_fault(bags, 5, kind::index, position < 30 ? 0 : 1, 5);
  }
}

TEST(CheckBags, FindsOffsetsThatDescendExceedOrDoNotStartAt0) {
  expect_fault({{0, 0, 0}, {0, 2, 1}, {}}, 1, kind::offset, 2, 1);
  expect_fault({{0, 0, 0}, {0, 4, 4}, {}}, 1, kind::offset, 1, 4);
  expect_fault({{0, 0, 0}, {1, 2}, {}}, 1, kind::offset, 0, 1);
  expect_fault({{0, 0, 0}, {-1, 2}, {}}, 1, kind::offset, 0, -1);
  for (const std::int64_t offset : {lowest, lowest + 2, std::int64_t{-1}, highest}) {
    expect_fault({{0, 0, 0}, {0, 2, offset, 3}, {}}, 1, kind::offset, 2, offset);
  }
}

TEST(CheckBags, FindsIndicesWithoutAnyBag) { expect_fault({{0, 0}, {}, {}}, 1, kind::offset, 0, 2); }

TEST(CheckBags, FindsAWrongNumberOfWeights) {
  expect_fault({{0, 0, 0}, {0}, {1, 2}}, 1, kind::weights, 0, 2);
  expect_fault({{}, {0}, {1}}, 1, kind::weights, 0, 1);
}

TEST(CheckBags, LooksAtWeightsThenOffsetsThenIndices) {
  expect_fault({{7}, {1}, {1, 2}}, 1, kind::weights, 0, 2);
  expect_fault({{7}, {1}, {}}, 1, kind::offset, 0, 1);
}

}  // namespace
}  // namespace troupe::kernels::test::check_bags_test
