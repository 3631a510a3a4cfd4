// Batches of trainer functions that other threads prepare ahead.

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/library/error_of.hpp"
#include "tests/library/run_trainers.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "troupe/troupe.hpp"

namespace troupe::prefetch_test {
namespace {

using numbers = std::vector<std::uint64_t>;

/// Makes batches that are the squares of their steps, and records which thread made which. Thread: any.
class squares {
 public:
  std::uint64_t make(std::uint64_t step) {
    {
      const std::lock_guard lock(mutex_);
      ++times_[step];
      ++under_way_;
      threads_[step] = std::this_thread::get_id();
      begun_.notify_all();
    }
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    const std::lock_guard lock(mutex_);
    --under_way_;
    return step * step;
  }
  /// The function for `trainer::prefetch`.
  auto maker() {
    return [this](std::uint64_t step) { return make(step); };
  }
  /// Waits until some thread has begun the batch of `step`.
  void wait_for(std::uint64_t step) {
    std::unique_lock lock(mutex_);
    begun_.wait(lock, [&] { return times_.contains(step); });
  }
  std::map<std::uint64_t, int> times() const {
    const std::lock_guard lock(mutex_);
    return times_;
  }
  int under_way() const {
    const std::lock_guard lock(mutex_);
    return under_way_;
  }
  std::thread::id thread_of(std::uint64_t step) const {
    const std::lock_guard lock(mutex_);
    return threads_.at(step);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable begun_;
  std::map<std::uint64_t, int> times_;
  std::map<std::uint64_t, std::thread::id> threads_;
  int under_way_ = 0;
};

/// Options with which batches are prepared by no other thread, by idle threads, and by dedicated threads.
const std::vector<std::vector<std::string>> ways = {
    {"--prepare", "0"}, {"--threads", "4"}, {"--prepare", "1"}, {"--prepare", "3"}};

// -- which thread makes a batch -------------------------------------------------------

task<> collect(trainer me, std::uint64_t n, squares* all, numbers* into) {
  for (const auto& one : me.prefetch(n, all->maker())) into->push_back(one);
  co_return;
}

TEST(Prefetch, HasTheBatchesInTheirOrderWhoeverMakesThem) {
  numbers expected;
  for (std::uint64_t step = 0; step < 20; ++step) expected.push_back(step * step);
  for (const auto& way : ways) {
    squares all;
    numbers found;
    test::run_with(test::arguments(way), 1, collect, 20, &all, &found);
    EXPECT_EQ(found, expected);
    ASSERT_EQ(all.times().size(), 20U) << "nothing is made beyond the last step";
    for (const auto& [step, times] : all.times()) EXPECT_EQ(times, 1) << step;
  }
}

TEST(Prefetch, OfNoStepsMakesNothing) {
  squares all;
  numbers found;
  test::run_with({"--prepare", "1"}, 1, collect, 0, &all, &found);
  EXPECT_TRUE(found.empty());
  EXPECT_TRUE(all.times().empty());
}

task<> wait_for_the_next(trainer me, squares* all, std::thread::id* here) {
  for (const std::uint64_t one : me.prefetch(2, all->maker())) {
    if (one > 0) continue;
    *here = std::this_thread::get_id();
    all->wait_for(1);  // which this thread cannot make meanwhile
  }
  co_return;
}

TEST(Prefetch, IsMadeByThreadsForItWhileTheBodyComputes) {
  squares all;
  std::thread::id here;
  test::run_with({"--prepare", "1", "--threads", "1"}, 1, wait_for_the_next, &all, &here);
  EXPECT_NE(all.thread_of(1), here);
}

TEST(Prefetch, IsMadeByIdleThreadsWhileTheBodyComputes) {
  squares all;
  std::thread::id here;
  test::run_with({"--threads", "4"}, 1, wait_for_the_next, &all, &here);
  EXPECT_NE(all.thread_of(1), here);
}

task<> count_made(trainer me, squares* all, numbers* made) {
  for ([[maybe_unused]] const auto& one : me.prefetch(5, all->maker())) {
    made->push_back(all->times().size());
    EXPECT_EQ(all->thread_of(made->size() - 1), std::this_thread::get_id());
  }
  co_return;
}

TEST(Prefetch, MakesNothingAheadIfAskedNotTo) {
  squares all;
  numbers made;
  test::run_with({"--prepare", "0", "--threads", "4"}, 1, count_made, &all, &made);
  EXPECT_EQ(made, (numbers{1, 2, 3, 4, 5}));
}

task<> collect_pointers(trainer me, numbers* into) {
  const auto make = [](std::uint64_t step) { return std::make_unique<std::uint64_t>(step); };
  for (const auto& one : me.prefetch(4, make)) into->push_back(*one);
  co_return;
}

TEST(Prefetch, MovesBatchesThatCannotBeCopied) {
  for (const auto& way : ways) {
    numbers found;
    test::run_with(test::arguments(way), 1, collect_pointers, &found);
    EXPECT_EQ(found, (numbers{0, 1, 2, 3}));
  }
}

// -- loops that end early -------------------------------------------------------------

/// With `waits`, another thread reads row 2.
task<> read_bad_row(trainer me, bool waits, squares* all, numbers* into) {
  const auto make = [all](std::uint64_t step) {
    const std::uint64_t made = all->make(step);
    if (step == 2) throw std::runtime_error("row 2 is bad");
    return made;
  };
  for (const auto& one : me.prefetch(9, make)) {
    into->push_back(one);
    if (waits && one == 1) all->wait_for(2);
  }
  co_return;
}

TEST(Prefetch, ThrowsWhatItsBatchHasThrownAtItsStep) {
  for (const bool ahead : {false, true}) {
    squares all;
    numbers found;
    EXPECT_ERROR(test::run_with({"--prepare", ahead ? "1" : "0"}, 1, read_bad_row, ahead, &all, &found),
                 "trainer 0, step 1: row 2 is bad");
    EXPECT_EQ(found, (numbers{0, 1}));
    EXPECT_EQ(all.under_way(), 0);
  }
}

task<> leave_twice(trainer me, squares* first, squares* second, std::vector<int>* under_way) {
  for (squares* all : {first, second}) {
    for ([[maybe_unused]] const auto& one : me.prefetch(1000, all->maker())) {
      all->wait_for(2);
      break;
    }
    under_way->push_back(all->under_way());
  }
  co_return;
}

TEST(Prefetch, OfALoopThatIsLeftIsOver) {
  squares first, second;
  std::vector<int> under_way;
  test::run_with({"--prepare", "2"}, 1, leave_twice, &first, &second, &under_way);
  EXPECT_EQ(under_way, (std::vector<int>{0, 0}));
  EXPECT_LT(first.times().size(), 10U);  // far fewer than 1000: the threads make few batches ahead
}

task<> wait_for_one_that_fails(trainer me, squares* all) {
  if (me.rank() == 1) {
    all->wait_for(1);
    throw std::runtime_error("the power has failed");
  }
  for ([[maybe_unused]] const auto& one : me.prefetch(1000, all->maker())) co_await me.group().barrier();
}

TEST(Prefetch, OfATaskThatIsDroppedIsOver) {
  squares all;
  EXPECT_THROW(test::run_with({"--prepare", "2", "--threads", "4"}, 2, wait_for_one_that_fails, &all), error);
  EXPECT_EQ(all.under_way(), 0);
}

// -- resumed loops --------------------------------------------------------------------

tensor rows_of(std::uint64_t step) {
  tensor rows({2, 2});
  for (std::size_t i = 0; i < rows.count(); ++i) rows.as<float>()[i] = static_cast<float>(step + i % 3);
  return rows;
}

/// Takes an optimizer step; its number is the first element of `x`.
task<> train_on(trainer me, const data_parallel& model, distributed_optimizer& optimizer, tensor x) {
  auto context = me.new_context();
  const tensor zeros = tensor::of<float>({2, 1}, std::vector<float>(2));
  co_await context.backward(nn::mse_loss(context, model(context, x), zeros));
  co_await optimizer.step(context);
}

task<> train_plainly(trainer me) {
  auto model = me.data_parallel(nn::linear(2, 1));
  distributed_optimizer optimizer(adam{.lr = 0.01}, model);
  for (const auto step : me.steps(12)) co_await train_on(me, model, optimizer, rows_of(step));
}

task<> train_prefetched(trainer me, std::uint64_t break_after, numbers* steps) {
  auto model = me.data_parallel(nn::linear(2, 1));
  distributed_optimizer optimizer(adam{.lr = 0.01}, model);
  for (const tensor& x : me.prefetch(12, rows_of)) {
    steps->push_back(static_cast<std::uint64_t>(x.as<float>()[0]));
    co_await train_on(me, model, optimizer, x);
    if (steps->size() == break_after) throw std::runtime_error("the power has failed");
  }
}

TEST(Prefetch, IsResumedAtItsStepWithTheBitsOfAPlainLoop) {
  const std::string expected = test::run_with({"--quiet"}, 1, train_plainly).weights_digest;
  for (const std::string prepare : {"0", "2"}) {
    const trace::temporary_folder folder;
    const std::string there = folder.path().string();
    numbers before, after, none;
    EXPECT_THROW(test::run_with({"--quiet", "--prepare", prepare, "--save", there, "--checkpoint-every", "3"}, 1,
                                train_prefetched, 8, &before),
                 error);
    const std::vector<std::string> resuming = {"--quiet", "--prepare", prepare, "--save", there, "--resume", there};
    EXPECT_EQ(test::run_with(test::arguments(resuming), 1, train_prefetched, 99, &after).weights_digest, expected);
    EXPECT_EQ(before, (numbers{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(after, (numbers{6, 7, 8, 9, 10, 11}));
    EXPECT_EQ(test::run_with(test::arguments(resuming), 1, train_prefetched, 99, &none).weights_digest, expected);
    EXPECT_TRUE(none.empty()) << "nothing is left to do";
  }
}

// -- the option -----------------------------------------------------------------------

std::string refusal(test::arguments given) {
  return test::error_of([&] { const cluster cluster(given.count(), given.values()); });
}

TEST(Prepare, IsRefusedWhereItIsNotForAnything) {
  EXPECT_EQ(refusal({"--prepare", "1025"}), "--prepare 1025: must be a whole number between 0 and 1024");
  EXPECT_EQ(refusal({"--listen", "127.0.0.1:0", "--prepare", "1"}),
            "--prepare: the leader computes nothing; give it to the processes that join");
  EXPECT_EQ(refusal({"--join", "127.0.0.1:7000", "--as", "server", "--prepare", "1"}),
            "--prepare: is for trainers, and this process joins as a server; leave it out");
}

}  // namespace
}  // namespace troupe::prefetch_test
