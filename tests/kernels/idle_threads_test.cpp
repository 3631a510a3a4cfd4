// Parts of a work item: each is done once, by any thread, and all results are reported in order to the thread that
// needs them.

#include "kernels/idle_threads.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/kernels/helping_threads.hpp"

namespace troupe::kernels::test::idle_threads_test {
namespace {

constexpr std::size_t thread_counts[] = {0, 1, 3};
constexpr std::size_t part_counts[] = {0, 1, 2, 7, 1000};

/// Keeps the offered work.
class kept_offers final : public idle_threads {
 public:
  explicit kept_offers(std::size_t count) : count_(count) {}
  std::size_t count() const override { return count_; }
  void offer(std::function<void()> help) override { all.push_back(std::move(help)); }

  std::vector<std::function<void()>> all;

 private:
  std::size_t count_;
};

std::vector<std::size_t> first_numbers(std::size_t count) {
  std::vector<std::size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

using counters = std::vector<std::atomic<int>>;

void expect_once_each(const counters& times) {
  for (std::size_t i = 0; i < times.size(); ++i) EXPECT_EQ(times[i], 1) << i;
}

TEST(InParts, EachIsDoneOnceAndSaidInOrderOnTheCallersThread) {
  for (const std::size_t threads : thread_counts) {
    const idle_threads_in_use in_use(std::make_shared<helping_threads>(threads));
    for (const std::size_t count : part_counts) {
      SCOPED_TRACE(std::to_string(threads) + " threads, " + std::to_string(count) + " parts");
      counters times(count);
      std::vector<std::size_t> said;
      const auto caller = std::this_thread::get_id();
      in_parts(
          count, [&](std::size_t i) { ++times[i]; },
          [&](std::size_t i) {
            EXPECT_EQ(std::this_thread::get_id(), caller);
            for (std::size_t before = said.size(); before <= i; ++before) EXPECT_EQ(times[before], 1) << before;
            said.push_back(i);
          });
      EXPECT_EQ(said, first_numbers(count));
      expect_once_each(times);
    }
  }
}

TEST(InParts, TheThreadThatNeedsThemAndAnIdleOneWorkSideBySide) {
  const auto helper = std::make_shared<helping_threads>(1);
  const idle_threads_in_use in_use(helper);
  for (const std::size_t count : {2, 3, 50}) {
    std::latch first_begun(1);
    std::latch last_begun(1);
    std::vector<std::thread::id> by(count);
    in_parts(count, [&](std::size_t i) {
      by[i] = std::this_thread::get_id();
      if (i == 0) {
        first_begun.count_down();
        last_begun.wait();
      } else if (i + 1 == count) {
        last_begun.count_down();
        first_begun.wait();
      }
    });
    EXPECT_EQ(by.front(), std::this_thread::get_id());
    EXPECT_TRUE(helper->has(by.back()));
  }
}

TEST(InParts, APartIsSaidToBeDoneWhileALaterOneRuns) {
  const auto helper = std::make_shared<helping_threads>(1);
  const idle_threads_in_use in_use(helper);
  std::latch last_begun(1);
  std::latch first_said(1);
  std::vector<std::size_t> said;
  in_parts(
      2,
      [&](std::size_t i) {
        if (i == 0) return last_begun.wait();
        last_begun.count_down();
        first_said.wait();
      },
      [&](std::size_t i) {
        said.push_back(i);
        if (i == 0) first_said.count_down();
      });
  EXPECT_EQ(said, first_numbers(2));
}

TEST(InParts, WithoutThreadsAreDoneInOrderOnTheCallersThread) {
  for (const bool none_are_idle : {false, true}) {
    std::optional<idle_threads_in_use> in_use;
    if (none_are_idle) in_use.emplace(std::make_shared<kept_offers>(0));
    std::vector<std::size_t> parts;
    std::vector<std::size_t> said;
    in_parts(
        7,
        [&, caller = std::this_thread::get_id()](std::size_t i) {
          EXPECT_EQ(std::this_thread::get_id(), caller);
          EXPECT_EQ(said.size(), i) << "the part before has not been said to be done";
          parts.push_back(i);
        },
        [&](std::size_t i) { said.push_back(i); });
    EXPECT_EQ(parts, first_numbers(7));
    EXPECT_EQ(said, first_numbers(7));
  }
}

TEST(InParts, AreOfferedToAsManyThreadsAsCanHelp) {
  for (const auto& [parts, threads, offers] :
       {std::array<std::size_t, 3>{0, 5, 0}, {1, 5, 0}, {2, 5, 1}, {4, 5, 3}, {6, 5, 5}, {100, 5, 5}, {100, 0, 0}}) {
    const auto kept = std::make_shared<kept_offers>(threads);
    const idle_threads_in_use in_use(kept);
    in_parts(parts, [](std::size_t) {});
    EXPECT_EQ(kept->all.size(), offers) << parts << " parts, " << threads << " threads";
  }
}

TEST(InParts, ThreadsThatComeTooLateFindNothing) {
  const auto kept = std::make_shared<kept_offers>(3);
  const idle_threads_in_use in_use(kept);
  int times = 0;
  in_parts(5, [&times](std::size_t) { ++times; });
  EXPECT_EQ(times, 5);
  ASSERT_EQ(kept->all.size(), 3U);
  for (const auto& help : kept->all) help();
  EXPECT_EQ(times, 5);
}

/// The exception of `in_parts` if the first or the last of six parts fails while an idle thread runs the last one.
std::exception_ptr failure_of_part(bool is_first) {
  const idle_threads_in_use in_use(std::make_shared<helping_threads>(1));
  constexpr std::size_t count = 6;
  std::latch first_begun(1);
  std::latch last_begun(1);
  std::atomic<int> running = 0;
  std::vector<std::size_t> said;
  const auto part = [&](std::size_t i) {
    ++running;
    if (i == 0) {
      first_begun.count_down();
      last_begun.wait();
    }
    if (i + 1 == count) {
      last_begun.count_down();
      first_begun.wait();
      for (int turn = 0; turn < 1000; ++turn) std::this_thread::yield();  // most likely it ends after the others
    }
    --running;
    if (i == (is_first ? 0 : count - 1)) throw std::runtime_error("part " + std::to_string(i));
  };
  std::exception_ptr failure;
  try {
    in_parts(count, part, [&](std::size_t i) { said.push_back(i); });
  } catch (...) {
    failure = std::current_exception();
  }
  EXPECT_EQ(running, 0);
  EXPECT_LT(said.size(), is_first ? 1U : count) << "a failed part is not done";
  EXPECT_EQ(said, first_numbers(said.size()));
  return failure;
}

TEST(InParts, AFailedPartIsThrownWhereTheyAreNeededOnceNoneRuns) {
  for (const bool is_first : {false, true}) {
    // Checked after the helper, its other owner, has ended: a thread sanitizer does not see how owners of an exception
    // are counted.
    const std::exception_ptr failure = failure_of_part(is_first);
    ASSERT_TRUE(failure) << "it was lost";
    try {
      std::rethrow_exception(failure);
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), is_first ? "part 0" : "part 5");
    }
  }
}

TEST(InParts, OfSeveralFailuresOneIsThrown) {
  for (const std::size_t threads : thread_counts) {
    const idle_threads_in_use in_use(std::make_shared<helping_threads>(threads));
    EXPECT_THROW(in_parts(100, [](std::size_t) { throw std::runtime_error("every part"); }), std::runtime_error);
    counters times(10);
    in_parts(times.size(), [&](std::size_t i) { ++times[i]; });
    expect_once_each(times);
  }
}

TEST(InParts, MayHavePartsThemselves) {
  constexpr std::size_t outer = 8;
  constexpr std::size_t inner = 9;
  for (const std::size_t threads : thread_counts) {
    const idle_threads_in_use in_use(std::make_shared<helping_threads>(threads));
    for (int again = 0; again < 20; ++again) {
      counters times(outer * inner);
      std::vector<std::vector<std::size_t>> said(outer);
      in_parts(outer, [&](std::size_t i) {
        in_parts(
            inner, [&](std::size_t k) { ++times[i * inner + k]; }, [&](std::size_t k) { said[i].push_back(k); });
      });
      expect_once_each(times);
      for (const auto& one : said) EXPECT_EQ(one, first_numbers(inner));
    }
  }
}

/// The ranges that `in_ranges` makes, in call order.
std::vector<std::pair<std::size_t, std::size_t>> ranges_of(std::size_t count, std::size_t bytes) {
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  in_ranges(count, bytes, [&](std::size_t begin, std::size_t end) { ranges.emplace_back(begin, end); });
  return ranges;
}

TEST(InRanges, CoverEverythingOnceInEqualParts) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  for (const std::size_t count : {0, 1, 2, 3, 63, 64, 65, 127, 1000, 1000003}) {
    for (const std::size_t bytes : {std::size_t{0}, mebibyte, 2 * mebibyte, 7 * mebibyte + 5, 5000 * mebibyte}) {
      SCOPED_TRACE(std::to_string(count) + " in " + std::to_string(bytes) + " bytes");
      const auto ranges = ranges_of(count, bytes);
      ASSERT_FALSE(ranges.empty());
      EXPECT_LE(ranges.size(), std::max<std::size_t>(bytes / mebibyte, 1));
      EXPECT_LE(ranges.size(), std::max<std::size_t>(count, 1));
      std::size_t covered = 0;
      for (const auto& [begin, end] : ranges) {
        EXPECT_EQ(begin, covered);
        EXPECT_GE(end - begin, count / ranges.size());
        EXPECT_LE(end - begin, count / ranges.size() + 1);
        covered = end;
      }
      EXPECT_EQ(covered, count);
    }
  }
  EXPECT_EQ(ranges_of(1000, 2 * mebibyte - 1).size(), 1U) << "not worth two threads";
  EXPECT_EQ(ranges_of(1000, 2 * mebibyte).size(), 2U);
}

TEST(InRanges, CoverEverythingOnceOnSeveralThreads) {
  const auto helpers = std::make_shared<helping_threads>(3);
  const idle_threads_in_use in_use(helpers);
  for (const std::size_t count : {1, 2, 63, 1001}) {
    const std::size_t offered_before = helpers->offers();
    counters times(count);
    in_ranges(count, std::size_t{16} << 20, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) ++times[i];
    });
    expect_once_each(times);
    EXPECT_EQ(helpers->offers() - offered_before, std::min<std::size_t>(count - 1, 3));
  }
}

TEST(IdleThreads, TheLatestOnesInUseGetTheWork) {
  const auto earlier = std::make_shared<kept_offers>(1);
  const auto later = std::make_shared<kept_offers>(1);
  const auto offer_twice = [] {
    offer_to_idle([] {});
    in_parts(2, [](std::size_t) {});
  };
  std::optional<idle_threads_in_use> first(std::in_place, earlier);
  offer_twice();
  EXPECT_EQ(earlier->all.size(), 2U);
  {
    const idle_threads_in_use second(later);
    offer_twice();
    EXPECT_EQ(earlier->all.size(), 2U);
    EXPECT_EQ(later->all.size(), 2U);
  }
  offer_twice();
  EXPECT_EQ(earlier->all.size(), 4U);
  EXPECT_EQ(later->all.size(), 2U);

  const idle_threads_in_use second(later);
  first.reset();
  offer_twice();
  EXPECT_EQ(earlier->all.size(), 4U);
  EXPECT_EQ(later->all.size(), 4U);
}

TEST(IdleThreads, DoWhatIsOfferedToThem) {
  std::promise<std::thread::id> by;
  const auto helper = std::make_shared<helping_threads>(1);
  const idle_threads_in_use in_use(helper);
  offer_to_idle([&by] { by.set_value(std::this_thread::get_id()); });
  EXPECT_TRUE(helper->has(by.get_future().get()));
}

TEST(IdleThreads, WithoutAnyNobodyKeepsWhatIsOffered) {
  const auto held = std::make_shared<int>();
  bool called = false;
  offer_to_idle([held, &called] { called = true; });
  EXPECT_FALSE(called);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace troupe::kernels::test::idle_threads_test
