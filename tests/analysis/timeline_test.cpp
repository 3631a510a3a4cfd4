#include "trace/analysis/exports.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <sstream>

#include "tests/analysis/synchronous_run.hpp"
#include "tests/analysis/trace_event_rules.hpp"

namespace troupe::analysis::timeline_test {

namespace {

std::string timeline_of(const trace::recording& run, timeline_counts* counts = nullptr) {
  std::ostringstream to;
  const timeline_counts made = write_timeline(run, to);
  if (counts != nullptr) *counts = made;
  return to.str();
}

}  // namespace

TEST(Timeline, ARunKeepsToTheRulesAndItsCounts) {
  synchronous_run r({trace::ms(5), trace::ms(8), trace::ms(5)});
  const trace::recording& run = r.made.done();
  timeline_counts counts;
  const trace_event_rules shown(timeline_of(run, &counts));
  const auto count = [&](auto is_so) { return static_cast<std::uint64_t>(std::ranges::count_if(run.events, is_so)); };
  const auto handled = count([](const trace::event& one) { return one.what == trace::kind::handled; });
  EXPECT_EQ(counts.messages, handled);
  EXPECT_EQ(counts.slices, handled + count([](const trace::event& one) { return one.what == trace::kind::range; }));
  EXPECT_EQ(shown.slice_count(), counts.slices);
  EXPECT_EQ(shown.starts.size(), counts.flows);
  EXPECT_EQ(counts.flows + counts.unbound, handled);
  EXPECT_EQ(counts.asyncs, 6U);  // the steps of two trainers
  EXPECT_EQ(shown.async_count(), counts.asyncs);
  // The first step's rows have no cause, and server 0 is recorded as idle when it sends the third one's.
  EXPECT_EQ(counts.unbound, 4U + 2U);
}

TEST(Timeline, ProcessesAndActorsHaveNamesAndPlaces) {
  trace::made_recording r(1, 1);
  r.edit().processes.resize(2);
  for (std::uint32_t i : {0U, 1U}) {
    r.edit().processes[i].host = i == 0 ? "alpha" : "beta";
    r.edit().processes[i].pid = 10 + i;
    r.edit().processes[i].node = i;
  }
  r.actor(r.server(0), "server \"0\"\n", 1);
  r.handled("lookup", r.trainer(0), r.server(0), trace::us(0, 0, 5, 7));
  const trace_event_rules shown(timeline_of(r.done()));
  EXPECT_EQ(shown.processes.at(1), "node 0 (alpha, pid 10)");
  EXPECT_EQ(shown.processes.at(2), "node 1 (beta, pid 11)");
  EXPECT_EQ(shown.threads.at({2, 3}), "server \"0\"\n");
  ASSERT_EQ(shown.slices_of("server \"0\"\n").size(), 1U);
}

TEST(Timeline, ASliceSaysWhatTheMessageWas) {
  trace::made_recording r(1, 1);
  r.handled("lookup", r.trainer(0), r.server(0), {1'000'001, 1'001'001, 1'002'001, 1'004'012},
            {.step = 12, .cause = trace::made_id(r.server(0), 4), .bytes = 99, .sequence = 7});
  const std::string text = timeline_of(r.done());
  EXPECT_NE(text.find("\"ts\":1002.001,\"dur\":2.011,"), std::string::npos);
  const trace_event_rules shown(text);
  const auto& one = shown.slices_of("server 0").at(0);
  EXPECT_EQ(one.name, "lookup");
  EXPECT_EQ(one.args.at("message"), "trainer 0 #7");
  EXPECT_EQ(one.args.at("cause"), "server 0 #4");
  EXPECT_EQ(one.args.at("step"), 12);
  EXPECT_EQ(one.args.at("bytes"), 99);
  EXPECT_EQ(one.args.at("queued_us"), 1.0);
}

TEST(Timeline, AnArrowLeavesTheSliceInWhichItsMessageWasSent) {
  trace::made_recording r(1, 1);
  const auto lookup = r.handled("lookup", r.trainer(0), r.server(0), {0, 1, trace::us(10), trace::us(20)});
  r.handled("note", r.trainer(0), r.server(0), trace::us(0, 1, 20, 30));
  // Sent at the very end of the first slice, where the next one begins.
  r.handled("rows", r.server(0), r.trainer(0), trace::us(20, 25, 25, 26), {.cause = lookup, .flags = flag::answer});
  const trace_event_rules shown(timeline_of(r.done()));
  ASSERT_EQ(shown.starts.size(), 1U);
  EXPECT_EQ(shown.starts.at("1").when, trace::us(20) - 1);
  EXPECT_EQ(shown.starts.at("1").where, (trace_event_rules::thread{1, 3}));
  EXPECT_EQ(shown.ends.at("1").when, trace::us(25));
}

TEST(Timeline, AClockThatIsWrongMakesNoArrowGoBackwards) {
  trace::made_recording r(1, 1);
  const auto lookup = r.handled("lookup", r.trainer(0), r.server(0), {0, 1, trace::us(10), trace::us(20)});
  r.handled("rows", r.server(0), r.trainer(0), trace::us(19, 18, 18, 22), {.cause = lookup});
  const auto early = r.handled("lookup", r.trainer(0), r.server(0), trace::us(39, 40, 40, 50));
  r.handled("rows", r.server(0), r.trainer(0), trace::us(45, 30, 30, 31), {.cause = early});
  timeline_counts counts;
  const trace_event_rules shown(timeline_of(r.done(), &counts));
  EXPECT_EQ(counts.flows, 1U);
  EXPECT_EQ(counts.unbound, 3U);
  EXPECT_EQ(shown.starts.at("1").when, trace::us(18));
}

TEST(Timeline, SlicesThatOverlapAreCut) {
  trace::made_recording r(1, 1);
  r.handled("lookup", r.trainer(0), r.server(0), trace::us(0, 0, 10, 20));
  r.range(r.server(0), trace::range_name::apply, 3, trace::us(15), trace::us(25));
  r.range(r.server(0), trace::range_name::pool, 3, trace::us(15), trace::us(25));
  const trace_event_rules shown(timeline_of(r.done()));
  const auto& all = shown.slices_of("server 0");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1].end, trace::us(20));
  EXPECT_EQ(all[2].end, trace::us(20));
}

TEST(Timeline, CountersTellOfQueuesAndWhatIsUnderWay) {
  trace::made_recording r(1, 2);
  r.edit().processes.resize(2);
  r.edit().processes[1].node = 1;
  for (const std::uint16_t t : {0, 1}) r.actor(r.trainer(t)).process = 1;
  const auto send = [&](std::uint16_t t, trace::nanoseconds sent, trace::nanoseconds arrived,
                        trace::nanoseconds begin) {
    r.handled("gradient", r.trainer(t), r.server(0), {sent, arrived, begin, begin + trace::us(10)},
              {.flags = flag::remote, .bytes = 100});
  };
  send(0, trace::us(10), trace::us(20), trace::us(30));
  send(1, trace::us(10), trace::us(25), trace::us(40));
  r.frame(trace::kind::sent, "lookup", r.trainer(0), r.server(0), trace::us(50), {.bytes = 7});
  const trace_event_rules shown(timeline_of(r.done()));
  using points = std::vector<std::pair<trace::nanoseconds, double>>;
  EXPECT_EQ(shown.counters.at("queue of server 0"),
            (points{{trace::us(20), 1}, {trace::us(25), 2}, {trace::us(30), 1}, {trace::us(40), 0}}));
  EXPECT_EQ(shown.counters.at("in flight to node 0"),
            (points{{trace::us(10), 200}, {trace::us(20), 100}, {trace::us(25), 0}, {trace::us(50), 7}}));
}

TEST(Timeline, StalenessAndMetricsAreCounters) {
  trace::made_recording r(1, 1);
  r.handled("rows", r.server(0), r.trainer(0), trace::us(0, 0, 1, 2), {.aux = 2});
  trace::event loss;
  loss.what = trace::kind::metric;
  loss.type = static_cast<std::uint16_t>(trace::metric_name::loss);
  loss.begin = loss.end = trace::us(5);
  loss.raw = std::bit_cast<std::uint64_t>(0.25);
  r.add(loss);
  loss.raw = std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN());
  r.add(loss);
  const trace_event_rules shown(timeline_of(r.done()));
  using points = std::vector<std::pair<trace::nanoseconds, double>>;
  EXPECT_EQ(shown.counters.at("staleness of trainer 0"), (points{{trace::us(1), 2}}));
  EXPECT_EQ(shown.counters.at("loss"), (points{{trace::us(5), 0.25}}));
}

TEST(Timeline, WhatHappensInAMomentIsAnInstant) {
  trace::made_recording r(1, 1);
  const auto note = [&](trace::kind what, std::uint16_t actor, std::uint16_t aux) {
    trace::event one;
    one.what = what;
    one.actor = actor;
    one.aux = aux;
    one.begin = one.end = trace::us(9);
    r.add(one);
  };
  note(trace::kind::spawn, r.server(0), 0);
  note(trace::kind::exit, r.server(0), 6);
  note(trace::kind::drop, r.server(0), 1);
  note(trace::kind::link_down, 0, 3);
  const trace_event_rules shown(timeline_of(r.done()));
  ASSERT_EQ(shown.instants.size(), 4U);
  EXPECT_EQ(shown.instants[1].at("name"), "exit");
  EXPECT_EQ(shown.instants[1].at("args").at("error"), 6);
  EXPECT_EQ(shown.instants[2].at("args").at("why"), "unexpected");
  EXPECT_EQ(shown.instants[3].at("args").at("node"), 3);
  EXPECT_EQ(shown.threads.at({1, shown.instants[3].at("tid").as_int64()}), "links");
}

TEST(Timeline, TimesInWhichAProcessDidNotRunHaveATrack) {
  trace::made_recording r(1, 1);
  r.actor(r.trainer(0), "trainer 0", 1);
  r.stalled(r.trainer(0), trace::ms(3), trace::ms(53));
  timeline_counts counts;
  const trace_event_rules shown(timeline_of(r.done(), &counts));
  const auto& all = shown.slices_of("not running");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].begin, trace::ms(3));
  EXPECT_EQ(all[0].end, trace::ms(53));
  EXPECT_EQ(counts.slices, 1U);
  EXPECT_EQ(shown.threads.size(), 4U + 1U) << "only the process that stalled has it";
}

TEST(Timeline, StreamsOfDevicesHaveTracks) {
  trace::made_recording r(1, 1);
  r.range(r.trainer(0), trace::range_name::forward_backward, 4, trace::ms(1), trace::ms(9));
  r.on_device(r.trainer(0), 2, trace::range_name::forward_backward, 4, trace::ms(2), trace::ms(5));
  r.on_device(r.trainer(0), 2, trace::range_name::update, 4, trace::ms(6), trace::ms(8));
  r.on_device(r.trainer(0), 2, trace::range_name::copy, 4, trace::ms(4), trace::ms(7));
  r.on_device(r.server(0), 2, trace::range_name::pool, 5, trace::ms(3), trace::ms(6));
  timeline_counts counts;
  const trace_event_rules shown(timeline_of(r.done(), &counts));
  EXPECT_EQ(counts.slices, 5U);
  EXPECT_EQ(shown.slice_count(), 5U);
  const auto& computed = shown.slices_of("trainer 0 on device 2");
  ASSERT_EQ(computed.size(), 2U);
  EXPECT_EQ(computed[0].name, "forward/backward");
  EXPECT_EQ(computed[0].begin, trace::ms(2));
  EXPECT_EQ(computed[0].end, trace::ms(5));
  EXPECT_EQ(computed[0].args.at("step"), 4);
  EXPECT_EQ(computed[1].name, "update");
  ASSERT_EQ(shown.slices_of("trainer 0 on device 2, copies").size(), 1U);
  ASSERT_EQ(shown.slices_of("server 0 on device 2").size(), 1U);
  EXPECT_EQ(shown.slices_of("server 0 on device 2")[0].begin, trace::ms(3));
}

TEST(Timeline, NothingRecordedIsAnEmptyTimeline) {
  const trace_event_rules shown(timeline_of(trace::recording{}));
  EXPECT_EQ(shown.slice_count(), 0U);
}

}  // namespace troupe::analysis::timeline_test
