// Goal: spans of a stream's work have the device's durations and lie at possible times on the host's clock, whatever
// the device's clock does; and no thread waits for them. Method: first a stream whose marks and times the test sets;
// then a device.

#include "kernels/stream_timer.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/emulated_cuda/counts.hpp"
#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_timer_test {
namespace {

std::int64_t now_ns() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Returns after `ns` nanoseconds on the host's clock.
void pass(std::int64_t ns) {
  const std::int64_t until = now_ns() + ns;
  while (now_ns() < until) continue;
}

/// A simulated device and its counts.
struct made_device {
  /// Returns the device's time of the mark being recorded.
  std::function<std::int64_t()> clock = [] { return std::int64_t{0}; };
  std::uint64_t reached = UINT64_MAX;  ///< marks reached so far
  std::uint64_t recorded = 0;
  std::uint64_t made = 0;
  std::uint64_t waits = 0;
  std::uint64_t asked = 0;  ///< queries for the time between marks
  std::uint64_t fails = 0;  ///< the query that fails
};

class made_mark final : public time_mark {
 public:
  explicit made_mark(made_device& of) : of_(of) {}

  void record() override {
    time_ = of_.clock();
    number_ = ++of_.recorded;
  }
  bool is_over() const override { return number_ <= of_.reached; }
  std::int64_t ns_since(const time_mark& earlier) const override {
    const auto& from = static_cast<const made_mark&>(earlier);
    EXPECT_TRUE(is_over() && from.is_over());
    EXPECT_GT(number_, from.number_);
    if (++of_.asked == of_.fails) throw device_error("a made device fails", device_error::reason::failed);
    return time_ - from.time_;
  }

 private:
  made_device& of_;
  std::uint64_t number_ = 0;
  std::int64_t time_ = 0;
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

/// A stream that supports only marks.
class made_stream final : public stream {
 public:
  explicit made_stream(made_device& of) : of_(of) {}

  std::unique_ptr<time_mark> make_time_mark() override {
    ++of_.made;
    return std::make_unique<made_mark>(of_);
  }
  void synchronize() override { ++of_.waits; }

  kernels::device& device() const override { return host_device(); }
  std::unique_ptr<event> record() override { return nullptr; }
  void wait(const event& before) override {}
  void capture_or_launch(std::unique_ptr<graph>& captured, const std::function<void()>& enqueue) override {}
  void upload(const void* host, void* to, std::size_t bytes) override {}
  void download(const void* from, void* host, std::size_t bytes) override {}
  void copy(const void* from, void* to, std::size_t bytes) override {}

#define TROUPE_KERNEL \
  override { throw device_error("a made stream has no kernels"); }
#include "kernels/stream_kernels.inc"

 private:
  made_device& of_;
};

#pragma GCC diagnostic pop

using timed_span = stream_timer::timed_span;

TEST(StreamTimer, TimesNothingOnTheProcessor) {
  stream_timer timer;
  for (int round = 0; round < 2; ++round) {
    EXPECT_FALSE(timer.is_on());
    { const stream_timer::scope scope(timer, 1); }
    EXPECT_TRUE(timer.collect().empty());
    timer.start(host_stream());
  }
}

/// A device clock with the host's rate and another zero: no time is corrected, unless the host sees the marks earlier
/// than its error in estimating the zero.
TEST(StreamTimer, TellsTheDevicesDurations) {
  made_device device;
  std::vector<std::int64_t> times;
  device.clock = [&times] { return times.emplace_back(now_ns() - 123'456'789'000); };
  made_stream on(device);
  stream_timer timer;
  const std::int64_t before = now_ns();
  timer.start(on);
  const std::int64_t error = now_ns() - before;
  for (int round = 0; round < 20; ++round) {
    timer.begin(3);
    pass(500);
    timer.end();
    pass(error + 1);
    const auto spans = timer.collect();
    ASSERT_EQ(spans.size(), 1U);
    EXPECT_EQ(spans[0].end - spans[0].begin, times[times.size() - 1] - times[times.size() - 2]);
  }
}

/// A fast, slow or far-off device clock must not shift spans from the host's clock.
TEST(StreamTimer, KeepsToTheHostsClockHoweverTheDevicesRuns) {
  for (const double rate : {0.0, 0.5, 0.9999, 1.0, 1.0001, 2.0, 100.0}) {
    SCOPED_TRACE(rate);
    made_device device;
    const std::int64_t zero = now_ns();
    device.clock = [&] { return -5'000'000'000 + std::llround(static_cast<double>(now_ns() - zero) * rate); };
    made_stream on(device);
    stream_timer timer;
    timer.start(on);
    std::int64_t last = 0;
    for (int round = 0; round < 200; ++round) {
      const std::int64_t before = now_ns();
      timer.begin(1);
      pass(500);
      timer.end();
      const auto spans = timer.collect();
      const std::int64_t after = now_ns();
      ASSERT_EQ(spans.size(), 1U);
      EXPECT_LE(before, spans[0].begin);
      EXPECT_LE(last, spans[0].begin);
      EXPECT_LE(spans[0].begin, spans[0].end);
      EXPECT_LE(spans[0].end, after);
      last = spans[0].end;
    }
  }
}

/// Whichever query of a span's times fails: the failure is reported once, and later spans are correct.
TEST(StreamTimer, LosesTheSpansOfADeviceThatFails) {
  for (std::uint64_t fails = 1; fails <= 4; ++fails) {
    SCOPED_TRACE(fails);
    made_device device;
    device.fails = fails;
    made_stream on(device);
    stream_timer timer;
    timer.start(on);
    for (std::uint16_t what = 1; what <= 2; ++what) {
      timer.begin(what);
      timer.end();
    }
    EXPECT_THROW(timer.collect(), device_error);
    EXPECT_TRUE(timer.collect().empty());
    timer.begin(3);
    timer.end();
    const auto spans = timer.collect();
    ASSERT_EQ(spans.size(), 1U);
    EXPECT_EQ(spans[0].what, 3);
  }
}

TEST(StreamTimer, LosesNoSpanAndKeepsTheirOrderWhileTheDeviceIsLate) {
  made_device device;
  made_stream on(device);
  stream_timer timer;
  timer.start(on);
  device.reached = device.recorded;
  for (std::uint16_t what = 1; what <= 5; ++what) {
    timer.set_step(10U * what);
    timer.begin(what);
    timer.end();
    EXPECT_TRUE(timer.collect().empty());
  }
  std::vector<std::pair<std::uint16_t, std::uint64_t>> all;
  while (device.reached < device.recorded) {
    ++device.reached;
    for (const timed_span& one : timer.collect()) all.emplace_back(one.what, one.step);
    EXPECT_EQ(all.size(), (device.reached - 1) / 2) << "a span is over at its second mark";
  }
  EXPECT_EQ(all, (std::vector<std::pair<std::uint16_t, std::uint64_t>>{{1, 10}, {2, 20}, {3, 30}, {4, 40}, {5, 50}}));
  EXPECT_EQ(device.waits, 1U) << "at the start";
}

TEST(StreamTimer, UsesItsMarksAgain) {
  made_device device;
  made_stream on(device);
  stream_timer timer;
  timer.start(on);
  const auto work = [&timer] {
    for (int i = 0; i < 3; ++i) {
      timer.begin(1);
      timer.end();
    }
    EXPECT_EQ(timer.collect().size(), 3U);
  };
  work();
  const std::uint64_t made = device.made;
  for (int step = 0; step < 20; ++step) work();
  EXPECT_EQ(device.made, made);
}

TEST(StreamTimer, ASpanThatIsNotEndedIsNone) {
  made_device device;
  made_stream on(device);
  stream_timer timer;
  timer.start(on);
  timer.end();
  timer.begin(1);
  timer.begin(2);
  timer.end();
  timer.end();
  const auto spans = timer.collect();
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].what, 2U);
}

class StreamTimerGpu : public stream_test<on_cuda> {};

TEST_F(StreamTimerGpu, SpansFollowEachOtherBetweenTheHostsTimes) {
  constexpr std::uint16_t count = 100;
  const auto x = buffer<float>(1 << 16);
  std::unique_ptr<graph> captured;
  const std::int64_t before = now_ns();
  stream_timer timer;
  timer.start(on());
  std::vector<timed_span> all;
  const auto collect = [&] {
    const auto more = timer.collect();
    all.insert(all.end(), more.begin(), more.end());
  };
  const auto waits = emulated_cuda::counts_now();
  for (std::uint16_t i = 1; i <= count; ++i) {
    timer.set_step(i);
    const stream_timer::scope scope(timer, i);
    on().capture_or_launch(captured, [&] { on().fill(x.size(), 1.0F, x.data()); });
    collect();
  }
  if (waits) {
    EXPECT_EQ(emulated_cuda::counts_now()->waits, waits->waits);
  }
  on().synchronize();
  collect();
  const std::int64_t after = now_ns();
  ASSERT_EQ(all.size(), count);
  std::int64_t last = before;
  for (std::uint16_t i = 1; i <= count; ++i) {
    const timed_span& one = all[i - 1U];
    EXPECT_EQ(one.what, i);
    EXPECT_EQ(one.step, i);
    EXPECT_LE(last, one.begin);
    EXPECT_LE(one.begin, one.end);
    last = one.end;
  }
  EXPECT_LE(last, after);
}

/// Both the span and the device's duration lie between the host's times before and after its wait.
TEST_F(StreamTimerGpu, ASpanLiesWhereTheHostHasWaitedForIt) {
  const auto x = buffer<float>(1 << 18);
  stream_timer timer;
  timer.start(on());
  for (int round = 0; round < 10; ++round) {
    const std::int64_t before = now_ns();
    {
      const stream_timer::scope scope(timer, 1);
      for (int i = 0; i < 10; ++i) on().multiply(x.size(), 1.0F, x.data());
    }
    on().synchronize();
    const auto spans = timer.collect();
    const std::int64_t after = now_ns();
    ASSERT_EQ(spans.size(), 1U);
    EXPECT_LE(before, spans[0].begin);
    EXPECT_LT(spans[0].begin, spans[0].end);
    EXPECT_LE(spans[0].end, after);
  }
}

TEST_F(StreamTimerGpu, MarksTellHowLongTheDeviceTookByItsOwnClock) {
  const auto first = on().make_time_mark();
  const auto second = on().make_time_mark();
  const auto third = on().make_time_mark();
  const auto x = buffer<float>(1 << 18);
  const std::int64_t before = now_ns();
  first->record();
  on().fill(x.size(), 1.0F, x.data());
  second->record();
  on().fill(x.size(), 2.0F, x.data());
  third->record();
  on().synchronize();
  const std::int64_t whole = now_ns() - before;
  ASSERT_TRUE(first->is_over() && second->is_over() && third->is_over());
  constexpr std::int64_t resolution = 1'000;
  EXPECT_GE(second->ns_since(*first), 0);
  EXPECT_LE(third->ns_since(*first), whole + resolution);
  EXPECT_NEAR(static_cast<double>(third->ns_since(*first)),
              static_cast<double>(second->ns_since(*first) + third->ns_since(*second)), 2.0 * resolution);
}

}  // namespace
}  // namespace troupe::kernels::test::stream_timer_test
