// Tasks and futures on an executor that the test drives.

#include "troupe/task.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/library/queue_executor.hpp"
#include "troupe/future.hpp"

namespace troupe::task_test {
namespace {

using test::queue_executor;

/// What a task has reported to the test.
struct outcome {
  bool ended = false;
  std::string error;

  std::function<void(std::exception_ptr)> note() {
    return [this](const std::exception_ptr& thrown) {
      ended = true;
      try {
        if (thrown) std::rethrow_exception(thrown);
      } catch (const std::exception& e) {
        error = e.what();
      }
    };
  }
};

/// Counts its living objects.
struct counted {
  explicit counted(int& count) : count_(&count) { ++*count_; }
  counted(counted&& other) noexcept : count_(other.count_) { ++*count_; }
  counted(const counted&) = delete;
  ~counted() { --*count_; }

 private:
  int* count_;
};

class Tasks : public testing::Test {
 protected:
  running_task start(task<> what) {
    running_task made;
    on_->enter([&] { made = running_task(std::move(what), end_.note()); });
    return made;
  }

  std::shared_ptr<queue_executor> on_ = std::make_shared<queue_executor>();
  outcome end_;
};

task<> append(future<int> from, std::vector<int>& to) { to.push_back(co_await std::move(from)); }

TEST_F(Tasks, WaitForTheirFutures) {
  promise<int> answer;
  std::vector<int> got;
  const auto running = start(append(answer.get_future(), got));
  EXPECT_EQ(on_->run(), 0);
  EXPECT_FALSE(end_.ended);
  answer.set(7);
  EXPECT_TRUE(got.empty()) << "a task continues on its executor only";
  EXPECT_EQ(on_->run(), 1);
  EXPECT_EQ(got, std::vector{7});
  EXPECT_TRUE(end_.ended);
}

TEST_F(Tasks, DoNotWaitForWhatIsHere) {
  promise<int> answer;
  answer.set(3);
  std::vector<int> got;
  const auto running = start(append(answer.get_future(), got));
  EXPECT_EQ(got, std::vector{3});
  EXPECT_TRUE(end_.ended);
}

TEST_F(Tasks, GoOnInTheOrderOfTheAnswers) {
  promise<int> first;
  promise<int> second;
  std::vector<int> got;
  outcome other;
  const auto one = start(append(first.get_future(), got));
  running_task two;
  on_->enter([&] { two = running_task(append(second.get_future(), got), other.note()); });
  second.set(2);
  first.set(1);
  on_->run();
  EXPECT_EQ(got, (std::vector{2, 1}));
}

task<> await_it(task<>* what) { co_await *what; }
task<> do_nothing() { co_return; }
constexpr const char* awaited_before =
    "a task that has been awaited already, or moved from; call its function again for another";

TEST_F(Tasks, AreAwaitedOnce) {
  task<> one = do_nothing();
  const auto first = start(await_it(&one));
  EXPECT_EQ(end_.error, "");
  const auto second = start(await_it(&one));
  EXPECT_EQ(end_.error, awaited_before);
}

TEST_F(Tasks, AreNotAwaitedWhenMovedFrom) {
  task<> one = do_nothing();
  const task<> moved = std::move(one);
  const auto running = start(await_it(&one));
  EXPECT_TRUE(end_.ended);
  EXPECT_EQ(end_.error, awaited_before);
}

TEST(Futures, WaitForEver) {
  promise<int> answer;
  auto coming = answer.get_future();
  std::thread other([&] { answer.set(7); });
  EXPECT_EQ(coming.get(std::chrono::milliseconds::max()), 7);
  other.join();
}

task<std::unique_ptr<int>> doubled(future<int> from) {
  const int number = co_await std::move(from);
  if (number < 0) throw std::domain_error("a negative number");
  co_return std::make_unique<int>(2 * number);
}

task<> doubled_twice(future<int> a, future<int> b, int& to) {
  const auto first = co_await doubled(std::move(a));
  const auto second = co_await doubled(std::move(b));
  to = *first + *second;
}

TEST_F(Tasks, AwaitOtherTasks) {
  promise<int> a;
  promise<int> b;
  int sum = 0;
  const auto running = start(doubled_twice(a.get_future(), b.get_future(), sum));
  a.set(1);
  b.set(10);
  on_->run();
  EXPECT_EQ(sum, 22);
}

TEST_F(Tasks, PassExceptionsOn) {
  promise<int> a;
  promise<int> b;
  int sum = 0;
  const auto running = start(doubled_twice(a.get_future(), b.get_future(), sum));
  a.set(-1);
  on_->run();
  EXPECT_TRUE(end_.ended);
  EXPECT_EQ(end_.error, "a negative number");
  EXPECT_EQ(sum, 0);
}

TEST_F(Tasks, GetTheErrorsOfFutures) {
  promise<int> answer;
  std::vector<int> got;
  const auto running = start(append(answer.get_future(), got));
  answer.fail(error(error_kind::input, "no such module"));
  on_->run();
  EXPECT_EQ(end_.error, "no such module");
}

TEST_F(Tasks, HearOfDroppedPromises) {
  std::vector<int> got;
  auto answer = std::make_unique<promise<int>>();
  const auto running = start(append(answer->get_future(), got));
  answer.reset();
  on_->run();
  EXPECT_NE(end_.error.find("the actor that owed it has ended"), std::string::npos) << end_.error;
}

task<> hold(future<int> from, int& alive) {
  const counted local(alive);
  co_await std::move(from);
}

TEST_F(Tasks, DestroyedWhileTheyWaitDestroyTheirVariables) {
  promise<int> answer;
  int alive = 0;
  {
    const auto running = start(hold(answer.get_future(), alive));
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
  answer.set(1);
  EXPECT_EQ(on_->run(), 0);
  EXPECT_FALSE(end_.ended);
}

TEST_F(Tasks, DestroyedBeforeTheyGoOnDoNot) {
  promise<int> answer;
  int alive = 0;
  {
    const auto running = start(hold(answer.get_future(), alive));
    answer.set(1);
  }
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(on_->run(), 1);
  EXPECT_FALSE(end_.ended);
}

TEST_F(Tasks, OutliveTheirExecutorHarmlessly) {
  promise<int> answer;
  int alive = 0;
  const auto running = start(hold(answer.get_future(), alive));
  on_.reset();
  answer.set(1);
  EXPECT_EQ(alive, 1);
  EXPECT_FALSE(end_.ended);
}

TEST_F(Tasks, MayWaitManyTimes) {
  constexpr int times = 100'000;
  const auto count_up = [](int& reached) -> task<> {
    for (int i = 0; i < times; ++i) {
      promise<> answer;
      auto coming = answer.get_future();
      answer.set();
      co_await std::move(coming);
      ++reached;
    }
  };
  int reached = 0;
  const auto running = start(count_up(reached));
  EXPECT_EQ(reached, times);
}

// -- threads -----------------------------------------------------------------------

TEST(Futures, AreGotOnOtherThreads) {
  promise<std::string> answer;
  auto coming = answer.get_future();
  std::jthread other([&answer] { answer.set("here"); });
  EXPECT_EQ(coming.get(), "here");
}

TEST(Futures, ThrowTheirErrorFromGet) {
  promise<> answer;
  auto coming = answer.get_future();
  answer.fail(error(error_kind::run, "server 0 has ended"));
  EXPECT_THROW(coming.get(), error);
}

TEST(Futures, CanBeAskedAgainAfterADeadline) {
  promise<int> answer;
  auto coming = answer.get_future();
  try {
    coming.get(std::chrono::milliseconds(1));
    FAIL() << "there was no answer";
  } catch (const error& e) {
    EXPECT_EQ(e.kind(), error_kind::deadline);
    EXPECT_STREQ(e.what(), "no answer within 1 ms");
  }
  answer.set(5);
  EXPECT_EQ(coming.get(), 5);
}

TEST(Futures, RefuseToBlockATask) {
  auto on = std::make_shared<queue_executor>();
  promise<int> answer;
  auto coming = answer.get_future();
  on->enter([&] { EXPECT_THROW(coming.get(), error); });
}

TEST(Futures, CallBack) {
  promise<int> answer;
  int got = 0;
  answer.get_future().then([&got](future<int> ready) { got = ready.get(); });
  EXPECT_EQ(got, 0);
  answer.set(4);
  EXPECT_EQ(got, 4);
  promise<int> second;
  second.set(6);
  second.get_future().then([&got](future<int> ready) { got = ready.get(); });
  EXPECT_EQ(got, 6);
}

TEST(Futures, CountTheFirstResultOnly) {
  promise<int> answer;
  auto coming = answer.get_future();
  answer.set(1);
  answer.set(2);
  answer.fail(error(error_kind::run, "too late"));
  EXPECT_EQ(coming.get(), 1);
}

TEST(Futures, AreTakenOnce) {
  promise<int> given;
  auto once = given.get_future();
  given.set(3);
  EXPECT_EQ(once.get(), 3);
  EXPECT_THROW(once.get(), error);
  EXPECT_THROW(std::move(once).then([](future<int>) {}), error);
  EXPECT_THROW(std::move(once).operator co_await(), error);
}

}  // namespace
}  // namespace troupe::task_test
