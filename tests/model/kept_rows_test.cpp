// Rows are read with their original contents, whatever changes meanwhile, and within the allowed memory.

#include "model/kept_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <thread>

#include "model/random.hpp"

namespace troupe::model::kept_rows_test {
namespace {

constexpr std::uint64_t plenty = std::uint64_t{1} << 40;

/// An array of `rows` rows of 3 numbers, all different.
class KeptRows : public testing::Test {
 protected:
  void make(std::size_t rows, std::uint64_t allowed = plenty) {
    numbers_.resize(rows * columns);
    std::iota(numbers_.begin(), numbers_.end(), 1);
    before_ = numbers_;
    memory_ = std::make_shared<memory_allowance>(allowed, [this] { ++returns_; });
    kept_.emplace(std::as_bytes(std::span(numbers_)), row_bytes, memory_);
  }

  bool change(std::vector<std::int64_t> rows) {
    if (!kept_->let_change(rows)) return false;
    for (const std::int64_t row : rows)
      for (std::size_t i = 0; i < columns; ++i) numbers_[static_cast<std::size_t>(row) * columns + i] += 0x1000'0000;
    return true;
  }

  bool change_all() {
    if (!kept_->let_all_change()) return false;
    for (auto& one : numbers_) one += 0x1000'0000;
    return true;
  }

  /// Reads `blocks` blocks; expects their original numbers.
  void read(std::size_t blocks) {
    std::vector<std::uint32_t> there(
        std::min(blocks * kept_->block_bytes() / sizeof(std::uint32_t), before_.size() - read_));
    ASSERT_TRUE(kept_->read(std::as_writable_bytes(std::span(there))));
    EXPECT_TRUE(std::ranges::equal(there, std::span(before_).subspan(read_, there.size())))
        << "from " << read_ << " on";
    read_ += there.size();
  }

  static constexpr std::size_t columns = 3;
  static constexpr std::size_t row_bytes = columns * sizeof(std::uint32_t);
  std::vector<std::uint32_t> numbers_;
  std::vector<std::uint32_t> before_;
  std::size_t read_ = 0;
  int returns_ = 0;
  std::shared_ptr<memory_allowance> memory_;
  std::optional<kept_rows> kept_;
};

TEST_F(KeptRows, AreThoseOfTheBeginningWhateverChanges) {
  constexpr std::size_t rows = 50'000;  // a block has 8192
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    random_sequence random(mix(seed));
    read_ = 0;
    make(rows);
    while (read_ < before_.size()) {
      std::vector<std::int64_t> some(random.below(3000));
      for (auto& row : some)
        row = static_cast<std::int64_t>(random.below(2) == 0 ? random.below(rows) : random.below(100));
      EXPECT_TRUE(change(some));
      EXPECT_TRUE(random.below(10) != 0 || change_all());
      if (random.below(3) == 0) read(1 + random.below(2));
    }
    EXPECT_EQ(memory_->left(), plenty) << "nothing is held when all is read";
    EXPECT_TRUE(change({0, 1, rows - 1}));
    kept_.reset();
  }
}

TEST_F(KeptRows, AreCopiedOnceAndOnlyIfTheyAreStillToBeRead) {
  make(50'000);
  read(2);
  EXPECT_TRUE(change({0, 5, 8192}));
  EXPECT_EQ(memory_->left(), plenty);
  EXPECT_TRUE(change({40'000}));
  const std::uint64_t with_one = memory_->left();
  EXPECT_LT(with_one, plenty);
  for (int again = 0; again < 100'000; ++again) ASSERT_TRUE(change({40'000}));
  EXPECT_EQ(memory_->left(), with_one);
  read(100);
}

// 160 rows are kept in chunks of 8.
TEST_F(KeptRows, WaitWhereMemoryIsUsedUpAndGoOnWhenAllIsRead) {
  make(160, 16 * row_bytes);
  std::vector<std::int64_t> some(17);
  std::iota(some.begin(), some.end(), 100);
  EXPECT_FALSE(change(some));
  some.pop_back();
  EXPECT_TRUE(change(some)) << "16 of them have been copied";
  EXPECT_FALSE(change({7}));
  EXPECT_FALSE(change_all());
  EXPECT_EQ(returns_, 0);
  read(1);
  EXPECT_EQ(returns_, 1);
  EXPECT_TRUE(change({7}) && change_all());
  EXPECT_EQ(memory_->left(), 16 * row_bytes);
}

TEST_F(KeptRows, TakeNoMoreMemoryThanTheArrayHas) {
  make(100'003, 100'003 * row_bytes);
  EXPECT_TRUE(change_all());
  EXPECT_EQ(memory_->left(), 0u);
  EXPECT_TRUE(change_all() && change({3, 4, 100'002}));
  read(1);
  read(1000);
  EXPECT_EQ(memory_->left(), 100'003 * row_bytes);
}

TEST_F(KeptRows, OfWhichSomeFitAreCopiedInPieces) {
  make(100'000, 3 * 8192 * row_bytes);
  EXPECT_FALSE(change_all());
  EXPECT_EQ(memory_->left(), 0u) << "three blocks are copied";
  read(10);
  EXPECT_FALSE(change_all()) << "those behind are not, and wait";
  EXPECT_EQ(numbers_, before_);
  read(10);
  EXPECT_TRUE(change_all());
}

TEST_F(KeptRows, ThatNobodyNeedsHoldNobodyUp) {
  make(160, 0);
  EXPECT_FALSE(change({1}));
  kept_->drop();
  EXPECT_EQ(returns_, 1);
  EXPECT_TRUE(change({1}));
  std::vector<std::byte> there(160 * row_bytes);
  EXPECT_FALSE(kept_->read(there));
}

TEST_F(KeptRows, MayBeNone) {
  make(0, 0);
  EXPECT_TRUE(change_all());
}

// Under the thread sanitizer this also detects reads of a row while it changes.
TEST_F(KeptRows, AreReadOnAnotherThread) {
  constexpr std::size_t rows = 200'000;
  make(rows);
  std::atomic<bool> is_read = false;
  std::jthread reader([&] {
    while (read_ < before_.size()) read(1);
    is_read = true;
  });
  random_sequence random(mix(7));
  do {
    std::vector<std::int64_t> some(500);
    for (auto& row : some) row = static_cast<std::int64_t>(random.below(rows));
    EXPECT_TRUE(change(some));
  } while (!is_read);
}

}  // namespace
}  // namespace troupe::model::kept_rows_test
