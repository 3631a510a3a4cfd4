// Batches that other threads make ahead.

#include "actors/batches_ahead.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "actors/failure.hpp"

namespace troupe::actors {
namespace {

/// Makes batches that know their step, and counts how often.
class counted_batches {
 public:
  batches_ahead::batch make(std::uint64_t step) {
    const std::lock_guard lock(mutex_);
    ++made_[step];
    threads_.insert_or_assign(step, std::this_thread::get_id());
    sparse_client::context one;
    one.step = step;
    return one;
  }
  batches_ahead::maker maker() {
    return [this](std::uint64_t step) { return make(step); };
  }
  /// By step; once nobody makes any more.
  const std::map<std::uint64_t, int>& made() const { return made_; }
  std::thread::id thread_of(std::uint64_t step) const { return threads_.at(step); }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, int> made_;
  std::map<std::uint64_t, std::thread::id> threads_;
};

using counts = std::map<std::uint64_t, int>;

TEST(BatchesAhead, AreThoseOfTheirStepsWhoeverMakesThem) {
  for (const std::size_t threads : {1, 2, 5}) {
    counted_batches all;
    {
      batches_ahead coming(std::make_shared<batch_threads>(threads, 1, true), threads + 1, all.maker());
      for (std::uint64_t step = 1; step <= 20; ++step) EXPECT_EQ(coming.take(step, 20)->step, step);
    }
    ASSERT_EQ(all.made().size(), 20U);
    for (const auto& [step, times] : all.made()) EXPECT_EQ(times, 1) << step;
    EXPECT_NE(all.thread_of(20), std::this_thread::get_id());
  }
}

TEST(BatchesAhead, AreAsManyAsWanted) {
  counted_batches all;
  {
    batches_ahead coming(std::make_shared<batch_threads>(2, 1, true), 2, all.maker());
    ASSERT_TRUE(coming.take(1, 10));
  }
  EXPECT_EQ(all.made(), (counts{{1, 1}, {2, 1}, {3, 1}}));
}

TEST(BatchesAhead, EndWithTheLastStep) {
  counted_batches all;
  {
    batches_ahead coming(std::make_shared<batch_threads>(2, 1, true), 8, all.maker());
    ASSERT_TRUE(coming.take(3, 4));
  }
  EXPECT_EQ(all.made(), (counts{{3, 1}, {4, 1}}));
}

TEST(BatchesAhead, AreMadeHereWithoutThreads) {
  counted_batches all;
  batches_ahead coming(nullptr, 3, all.maker());
  EXPECT_EQ(coming.take(7, 10)->step, 7U);
  EXPECT_EQ(all.made(), (counts{{7, 1}}));
  EXPECT_EQ(all.thread_of(7), std::this_thread::get_id());
}

TEST(BatchesAhead, GoOnAtAnotherStep) {
  counted_batches all;
  batches_ahead coming(std::make_shared<batch_threads>(1, 1, true), 2, all.maker());
  EXPECT_EQ(coming.take(1, 100)->step, 1U);
  EXPECT_EQ(coming.take(50, 100)->step, 50U);
  EXPECT_EQ(coming.take(51, 100)->step, 51U);
}

TEST(BatchesAhead, HaveTheFaultOfTheirStep) {
  const auto make = [](std::uint64_t step) -> batches_ahead::batch {
    if (step == 2) return make_failure(errc::bad_input, "line 9 is no row");
    sparse_client::context one;
    one.step = step;
    return one;
  };
  batches_ahead coming(std::make_shared<batch_threads>(2, 1, true), 2, make);
  EXPECT_TRUE(coming.take(1, 3));
  const auto wrong = coming.take(2, 3);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error(), errc::bad_input);
  EXPECT_TRUE(coming.take(3, 3));
}

TEST(BatchThreads, AreTheCoresThatTrainersLeave) {
  const std::size_t cores = std::thread::hardware_concurrency();
  EXPECT_EQ(make_batch_threads({}, cores), nullptr);
  EXPECT_EQ(make_batch_threads({.count = 0}, 1), nullptr);
  EXPECT_EQ(make_batch_threads({.sharers = cores}, 1), nullptr);
  EXPECT_NE(make_batch_threads({.count = 1}, cores), nullptr);
}

TEST(BatchThreads, MakeSmallBatchesOnlyIfAskedTo) {
  EXPECT_EQ(batch_threads(1, 1, false).ahead(100), 0U);
  EXPECT_EQ(batch_threads(1, 1, false).ahead(1'000'000), 2U);
  EXPECT_EQ(batch_threads(1, 1, true).ahead(100), 2U);
  EXPECT_EQ(batch_threads(5, 2, true).ahead(100), 4U);
}

}  // namespace
}  // namespace troupe::actors
