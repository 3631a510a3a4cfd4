// Goal: a fiber continues where it left, rethrows what its body throws, and unwinds what it does not finish. Method:
// bodies that record what they do.

#include "base/fiber.hpp"

#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace troupe::fiber_test {
namespace {

TEST(Fiber, GoesOnWhereItHasLeft) {
  std::vector<int> seen;
  fiber* self = nullptr;
  fiber one([&] {
    for (int i = 1; i <= 3; ++i) {
      seen.push_back(i);
      self->leave();
    }
  });
  self = &one;
  EXPECT_TRUE(seen.empty()) << "it begins with the first resume";
  for (int i = 1; i <= 3; ++i) {
    one.resume();
    seen.push_back(-i);
    EXPECT_FALSE(one.is_over());
  }
  one.resume();
  EXPECT_TRUE(one.is_over());
  EXPECT_EQ(seen, (std::vector<int>{1, -1, 2, -2, 3, -3}));
}

TEST(Fiber, ThrowsWhatItsBodyThrows) {
  fiber* self = nullptr;
  fiber one([&] {
    self->leave();
    throw std::runtime_error("by the body");
  });
  self = &one;
  one.resume();
  std::string text;
  try {
    one.resume();
  } catch (const std::runtime_error& error) {
    text = error.what();
  }
  EXPECT_EQ(text, "by the body");
  EXPECT_TRUE(one.is_over());
}

/// Not inlined: compilers assume that a function's thread stays the same.
[[gnu::noinline]] void note_thread(std::vector<std::thread::id>& seen) { seen.push_back(std::this_thread::get_id()); }

TEST(Fiber, GoesOnInAnotherThread) {
  fiber* self = nullptr;
  std::vector<std::thread::id> seen;
  fiber one([&] {
    note_thread(seen);
    self->leave();
    note_thread(seen);
  });
  self = &one;
  one.resume();
  std::thread other([&] { one.resume(); });
  const std::thread::id id = other.get_id();
  other.join();
  EXPECT_EQ(seen, (std::vector{std::this_thread::get_id(), id}));
}

TEST(Fiber, UnwindsWhatItHasNotFinished) {
  const auto held = std::make_shared<int>(1);
  {
    fiber* self = nullptr;
    fiber begun([&, copy = held] {
      const auto another = copy;
      self->leave();
      FAIL() << "it was not resumed";
    });
    self = &begun;
    begun.resume();
    EXPECT_EQ(held.use_count(), 3);
    const fiber never([copy = held] { FAIL() << "it was not resumed"; });
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Fiber, LeavesOnlyOnceWhileItUnwinds) {
  int tries = 0;
  {
    fiber* self = nullptr;
    fiber one([&] {
      while (tries < 3) {
        try {
          self->leave();
        } catch (...) {  // as users' code may
          ++tries;
        }
      }
    });
    self = &one;
    one.resume();
  }
  EXPECT_EQ(tries, 3);
}

TEST(Fiber, KeepsTheExceptionsThatItHasInHand) {
  fiber* self = nullptr;
  std::string text;
  fiber one([&] {
    try {
      throw std::runtime_error("inside");
    } catch (...) {
      self->leave();
      try {
        throw;
      } catch (const std::runtime_error& error) {
        text = error.what();
      }
    }
  });
  self = &one;
  one.resume();
  EXPECT_EQ(std::current_exception(), nullptr);
  try {
    throw std::runtime_error("outside");
  } catch (...) {
    one.resume();
    try {
      throw;
    } catch (const std::runtime_error& error) {
      text += std::string(" and ") + error.what();
    }
  }
  EXPECT_EQ(text, "inside and outside");
}

TEST(Fiber, HasAStackForALotOfNumbers) {
  double sum = 0;
  fiber one([&] {
    volatile double numbers[std::size_t{1} << 19];  // 4 MiB
    for (std::size_t i = 0; i < std::size(numbers); ++i) numbers[i] = 1;
    for (const volatile double& number : numbers) sum += number;
  });
  one.resume();
  EXPECT_EQ(sum, 524288);
}

}  // namespace
}  // namespace troupe::fiber_test
