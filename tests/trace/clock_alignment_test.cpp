#include "trace/record/clock_alignment.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace troupe::trace::clock_alignment_test {

namespace {

constexpr std::int64_t us = 1'000;
constexpr std::int64_t ms = 1'000'000;
constexpr std::int64_t s = 1'000'000'000;

/// A host's actual clock: ahead of the true time by `offset`, with a drift of `ppm`.
struct true_clock {
  std::int64_t offset = 0;
  double ppm = 0;

  std::int64_t at(std::int64_t t) const { return t + offset + std::llround(static_cast<double>(t) * ppm / 1e6); }
};

/// Traffic between hosts over a span of true time; delays have a minimum plus an exponential jitter.
struct traffic {
  std::vector<true_clock> clocks;
  std::int64_t duration = 20 * s;
  std::vector<crossing> messages;
  std::mt19937 random{7};

  void send(std::uint32_t from, std::uint32_t to, std::int64_t at, std::int64_t delay) {
    messages.push_back({from, to, clocks[from].at(at), clocks[to].at(at + delay)});
  }
  void flow(std::uint32_t from, std::uint32_t to, int count, std::int64_t least, std::int64_t jitter) {
    std::uniform_int_distribution<std::int64_t> when(0, duration - ms);
    std::exponential_distribution<double> extra(1);
    for (int i = 0; i < count; ++i)
      send(from, to, when(random), least + std::llround(extra(random) * static_cast<double>(jitter)));
  }
  std::vector<host_clock> hosts() const {
    std::vector<host_clock> all;
    for (const true_clock& clock : clocks) all.push_back({clock.at(0), clock.at(duration), -clock.offset});
    return all;
  }
  std::vector<clock_line> align() const { return align_clocks(hosts(), messages, 0); }
  /// Returns the largest error of `line` over many times, in nanoseconds.
  std::int64_t worst(const clock_line& line, std::uint32_t host) const {
    std::int64_t most = 0;
    for (std::int64_t t = 0; t <= duration; t += duration / 1000)
      most = std::max(most, std::abs(line.to_reference(clocks[host].at(t)) - clocks[0].at(t)));
    return most;
  }
};

std::int64_t arrivals_before_send(const std::vector<clock_line>& lines, const std::vector<crossing>& messages) {
  return std::ranges::count_if(messages, [&](const crossing& one) {
    return lines[one.to].to_reference(one.arrived) < lines[one.from].to_reference(one.sent);
  });
}

}  // namespace

TEST(ClockAlignment, AnOffsetOfSecondsAndADriftAreWithinTheStatedError) {
  traffic runs{{{}, {3 * s, 50}}, 20 * s, {}};
  runs.flow(0, 1, 5000, 20 * us, 100 * us);
  runs.flow(1, 0, 5000, 40 * us, 900 * us);
  const auto lines = runs.align();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].at(12345), 0);
  EXPECT_EQ(lines[0].error, 0);
  EXPECT_TRUE(lines[1].aligned);
  EXPECT_NEAR(lines[1].drift_ppm, -50, 3);
  EXPECT_LE(runs.worst(lines[1], 1), lines[1].error);
  EXPECT_LT(lines[1].error, 100 * us);
  // The minimum delays are 20 and 40 us: no estimate can be better than half of their sum.
  EXPECT_GE(lines[1].error, 30 * us);
  EXPECT_EQ(arrivals_before_send(lines, runs.messages), 0);
}

TEST(ClockAlignment, ManySeedsKeepTheStatedError) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    traffic runs{{{}, {-70 * s, -120}}, 3 * s, {}, std::mt19937(seed)};
    runs.flow(0, 1, 40, 5 * us, 3 * ms);
    runs.flow(1, 0, 30, 50 * us, 200 * us);
    const auto lines = runs.align();
    EXPECT_LE(runs.worst(lines[1], 1), lines[1].error) << seed;
    EXPECT_EQ(arrivals_before_send(lines, runs.messages), 0) << seed;
  }
}

TEST(ClockAlignment, TwoMessagesLeaveWhatADriftMayMakeOfThem) {
  traffic runs{{{}, {3 * s, 50}}, 10 * s, {}};
  runs.send(0, 1, 2 * s, 100 * us);
  runs.send(1, 0, 2 * s + ms, 100 * us);
  const auto lines = runs.align();
  EXPECT_TRUE(lines[1].aligned);
  EXPECT_LE(runs.worst(lines[1], 1), lines[1].error);
  // Eight seconds at 500 ppm.
  EXPECT_NEAR(static_cast<double>(lines[1].error), 4e6, 0.2e6);
  EXPECT_EQ(arrivals_before_send(lines, runs.messages), 0);
}

TEST(ClockAlignment, TrafficOneWayRestsOnTheTimeOfDay) {
  traffic runs{{{}, {3 * s, 0}}, s, {}};
  runs.flow(0, 1, 100, 100 * us, 100 * us);
  const auto lines = runs.align();
  EXPECT_FALSE(lines[1].aligned);
  EXPECT_EQ(lines[1].at(0), -3 * s);
  EXPECT_EQ(arrivals_before_send(lines, runs.messages), 0);
}

TEST(ClockAlignment, AWrongTimeOfDayDoesNotLetAMessageArriveBeforeItWasSent) {
  traffic runs{{{}, {3 * s, 0}, {s, 0}}, s, {}};
  runs.flow(0, 1, 100, 100 * us, 100 * us);
  runs.flow(0, 2, 100, 100 * us, 100 * us);
  runs.flow(2, 0, 100, 100 * us, 100 * us);
  runs.flow(2, 1, 100, 100 * us, 100 * us);
  auto hosts = runs.hosts();
  hosts[1].realtime -= s;
  const auto lines = align_clocks(hosts, runs.messages, 0);
  EXPECT_FALSE(lines[1].aligned);
  EXPECT_TRUE(lines[2].aligned);
  EXPECT_LT(lines[2].error, 200 * us);  // the doubtful clock was adjusted, not the known one
  EXPECT_EQ(arrivals_before_send(lines, runs.messages), 0);
}

TEST(ClockAlignment, AChainAddsErrorsUp) {
  traffic runs{{{}, {3 * s, 50}, {-s, -80}}, 10 * s, {}};
  for (std::uint32_t host : {1U, 2U}) {
    runs.flow(host - 1, host, 1000, 30 * us, 100 * us);
    runs.flow(host, host - 1, 1000, 30 * us, 100 * us);
  }
  const auto lines = runs.align();
  EXPECT_TRUE(lines[2].aligned);
  EXPECT_LE(runs.worst(lines[1], 1), lines[1].error);
  EXPECT_LE(runs.worst(lines[2], 2), lines[2].error);
  EXPECT_GE(lines[2].error, lines[1].error + 30 * us);
  EXPECT_EQ(arrivals_before_send(lines, runs.messages), 0);
}

TEST(ClockAlignment, ATriangleAgreesOnAllItsSides) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    traffic runs{{{}, {3 * s, 50}, {-s, -80}}, 5 * s, {}, std::mt19937(seed)};
    // Few, slow messages to and from the reference; many fast ones between the other two.
    for (std::uint32_t host : {1U, 2U}) {
      runs.flow(0, host, 20, us, 5 * ms);
      runs.flow(host, 0, 20, 30 * us, 5 * ms);
    }
    runs.flow(1, 2, 500, 15 * us, 20 * us);
    runs.flow(2, 1, 500, 15 * us, 20 * us);
    const auto lines = runs.align();
    EXPECT_LE(runs.worst(lines[1], 1), lines[1].error) << seed;
    EXPECT_LE(runs.worst(lines[2], 2), lines[2].error) << seed;
    EXPECT_EQ(arrivals_before_send(lines, runs.messages), 0) << seed;
  }
}

TEST(ClockAlignment, AClockThatWasSetIsContradictedAsLittleAsPossible) {
  traffic runs{{{}, {3 * s, 0}}, 2 * s, {}};
  runs.flow(0, 1, 500, 30 * us, 10 * us);
  runs.flow(1, 0, 500, 30 * us, 10 * us);
  traffic later{{{}, {3 * s + 20 * ms, 0}}, 4 * s, {}};
  for (std::int64_t t = 2 * s; t < 4 * s; t += 10 * ms) {
    later.send(0, 1, t, 30 * us);
    later.send(1, 0, t, 30 * us);
  }
  runs.messages.insert(runs.messages.end(), later.messages.begin(), later.messages.end());
  runs.duration = 4 * s;
  const auto lines = runs.align();
  EXPECT_GE(lines[1].error, 9 * ms);
  EXPECT_LE(lines[1].error, 40 * ms);
}

TEST(ClockAlignment, NoMessagesAndOneHostAreNoTrouble) {
  EXPECT_TRUE(align_clocks({}, {}, 0).empty());
  const std::vector<host_clock> one(1);
  EXPECT_EQ(align_clocks(one, {}, 0).at(0).at(5), 0);
}

}  // namespace troupe::trace::clock_alignment_test
