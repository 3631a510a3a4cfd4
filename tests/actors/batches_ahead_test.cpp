// Batches that other threads prepare ahead.

#include "actors/common/batches_ahead.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <caf/expected.hpp>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "actors/common/failure.hpp"

namespace troupe::actors {
namespace {

using made = caf::expected<std::uint64_t>;  // batches are their step numbers
using ahead = batches_ahead<made>;

/// Makes batches that are their step numbers, and counts how often each is made.
class counted_batches {
 public:
  made make(std::uint64_t step) {
    const std::lock_guard lock(mutex_);
    last_made_.notify_all();
    ++made_[step];
    threads_.insert_or_assign(step, std::this_thread::get_id());
    return step;
  }
  ahead::maker maker() {
    return [this](std::uint64_t step) { return make(step); };
  }
  void wait_for(std::uint64_t step) {
    std::unique_lock lock(mutex_);
    last_made_.wait(lock, [&] { return made_.contains(step); });
  }
  /// How often each step's batch was made. Requires that no thread makes batches any more.
  const std::map<std::uint64_t, int>& times() const { return made_; }
  std::thread::id thread_of(std::uint64_t step) const { return threads_.at(step); }

 private:
  std::mutex mutex_;
  std::condition_variable last_made_;
  std::map<std::uint64_t, int> made_;
  std::map<std::uint64_t, std::thread::id> threads_;
};

using counts = std::map<std::uint64_t, int>;

TEST(BatchesAhead, AreThoseOfTheirStepsWhoeverMakesThem) {
  for (const std::size_t threads : {1, 2, 5}) {
    counted_batches all;
    {
      ahead coming(std::make_shared<batch_threads>(threads, 1), threads + 1, all.maker());
      for (std::uint64_t step = 1; step <= 20; ++step) EXPECT_EQ(coming.take(step, 20), step);
    }
    ASSERT_EQ(all.times().size(), 20U);
    for (const auto& [step, times] : all.times()) EXPECT_EQ(times, 1) << step;
  }
}

TEST(BatchesAhead, AreAsManyAsWanted) {
  counted_batches all;
  {
    ahead coming(std::make_shared<batch_threads>(2, 1), 2, all.maker());
    ASSERT_TRUE(coming.take(1, 10));
    all.wait_for(2);
    all.wait_for(3);
  }
  EXPECT_EQ(all.times(), (counts{{1, 1}, {2, 1}, {3, 1}}));
  EXPECT_NE(all.thread_of(3), std::this_thread::get_id());
}

TEST(BatchesAhead, EndWithTheLastStep) {
  counted_batches all;
  {
    ahead coming(std::make_shared<batch_threads>(2, 1), 8, all.maker());
    ASSERT_TRUE(coming.take(3, 4));
    all.wait_for(4);
  }
  EXPECT_EQ(all.times(), (counts{{3, 1}, {4, 1}}));
}

TEST(BatchesAhead, AreMadeHereWithoutThreads) {
  counted_batches all;
  ahead coming(nullptr, 3, all.maker());
  EXPECT_EQ(coming.take(7, 10), 7U);
  EXPECT_EQ(all.times(), (counts{{7, 1}}));
  EXPECT_EQ(all.thread_of(7), std::this_thread::get_id());
}

TEST(BatchesAhead, GoOnAtAnotherStep) {
  counted_batches all;
  ahead coming(std::make_shared<batch_threads>(1, 1), 2, all.maker());
  EXPECT_EQ(coming.take(1, 100), 1U);
  EXPECT_EQ(coming.take(50, 100), 50U);
  EXPECT_EQ(coming.take(51, 100), 51U);
}

TEST(BatchesAhead, HaveTheFaultOfTheirStep) {
  const auto make = [](std::uint64_t step) -> made {
    if (step == 2) return make_failure(errc::bad_input, "line 9 is no row");
    return step;
  };
  ahead coming(std::make_shared<batch_threads>(2, 1), 2, make);
  EXPECT_TRUE(coming.take(1, 3));
  const auto wrong = coming.take(2, 3);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error(), errc::bad_input);
  EXPECT_TRUE(coming.take(3, 3));
}

TEST(BatchThreads, AreThoseThatAreIdleUnlessANumberIsGiven) {
  const std::size_t cores = std::thread::hardware_concurrency();
  EXPECT_EQ(make_batch_threads({.count = 0}, 1), nullptr);
  EXPECT_EQ(make_batch_threads({}, 0), nullptr);
  EXPECT_EQ(make_batch_threads({}, 1)->ahead(1'000'000), std::min<std::size_t>(cores, 8));
  EXPECT_EQ(make_batch_threads({.count = 20}, 1)->ahead(1'000'000), 21U);
  EXPECT_EQ(make_batch_threads({}, cores)->ahead(1'000'000), 1U);
  EXPECT_EQ(make_batch_threads({.sharers = cores}, 1)->ahead(1'000'000), 1U);
  EXPECT_EQ(make_batch_threads({.count = 5}, 2)->ahead(1'000'000), 4U);
}

TEST(BatchThreads, MakeSmallBatchesOnlyIfAskedTo) {
  EXPECT_EQ(batch_threads(0, 2).ahead(100), 0U);
  EXPECT_EQ(batch_threads(0, 2).ahead(1'000'000), 2U);
  EXPECT_EQ(batch_threads(1, 2).ahead(100), 2U);
}

TEST(BatchesAhead, AreMadeHereWhereNoThreadIsIdle) {
  counted_batches all;
  {
    ahead coming(std::make_shared<batch_threads>(0, 2), 2, all.maker());
    for (std::uint64_t step = 1; step <= 3; ++step) EXPECT_EQ(coming.take(step, 10), step);
  }
  EXPECT_EQ(all.times(), (counts{{1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(all.thread_of(3), std::this_thread::get_id());
}

}  // namespace
}  // namespace troupe::actors
