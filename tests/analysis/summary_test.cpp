#include "trace/analysis/summary.hpp"

#include <gtest/gtest.h>

#include "tests/trace/made_recording.hpp"

namespace troupe::analysis::summary_test {
namespace {

struct small_run {
  trace::made_recording made{1, 1};
  std::uint16_t server = made.server(0);
  std::uint16_t trainer = made.trainer(0);
  std::uint64_t lookup = made.handled("lookup", trainer, server, trace::ms(0, 1, 3, 4), {.step = 1, .bytes = 100});
  std::uint64_t second = made.handled("lookup", trainer, server, trace::ms(5, 6, 6, 9), {.step = 2, .bytes = 50});
  std::uint64_t rows = made.handled("rows", server, trainer, trace::ms(4, 5, 5, 10),
                                    {.step = 1, .cause = lookup, .flags = flag::answer, .bytes = 1000});

  small_run() { made.range(trainer, trace::range_name::prepare_batch, 2, trace::ms(12), trace::ms(20)); }

  summary sum() { return summarize(causality(made.done())); }
};

TEST(Summary, CountsTimeOfActors) {
  small_run one;
  const summary sum = one.sum();
  EXPECT_EQ(sum.messages, 3U);
  EXPECT_EQ(sum.bytes, 1150U);
  EXPECT_EQ(sum.begin, trace::ms(3));
  EXPECT_EQ(sum.end, trace::ms(20));
  ASSERT_EQ(sum.actors.size(), 2U);
  EXPECT_EQ(sum.actors[0].actor, one.server);
  EXPECT_EQ(sum.actors[0].handled, 2U);
  EXPECT_EQ(sum.actors[0].working, trace::ms(4));
  EXPECT_EQ(sum.actors[0].queued, trace::ms(2));
  EXPECT_EQ(sum.actors[0].longest, one.second);
  EXPECT_EQ(sum.actors[0].longest_time, trace::ms(3));
  EXPECT_EQ(sum.actors[1].working, trace::ms(13));  // its own turn counts
}

TEST(Summary, CountsMessagesByEdgeAndTypeMostBytesFirst) {
  small_run one;
  const summary sum = one.sum();
  ASSERT_EQ(sum.edges.size(), 2U);
  EXPECT_EQ(sum.edges[0].bytes, 1000U);
  EXPECT_EQ(sum.edges[0].receiver, one.trainer);
  EXPECT_EQ(sum.edges[1].messages, 2U);
  EXPECT_EQ(sum.edges[1].bytes, 150U);
  EXPECT_EQ(sum.edges[1].wire, trace::ms(2));
  EXPECT_EQ(sum.edges[1].queued, trace::ms(2));
}

TEST(Summary, SumsUpWhatBeganSinceAMoment) {
  small_run one;
  const trace::recording& run = one.made.done();
  const std::vector<edge_summary> edges = summarize_edges(run, trace::ms(5));
  ASSERT_EQ(edges.size(), 2U);
  EXPECT_EQ(edges[1].messages, 1U) << "the first lookup began before";
  EXPECT_EQ(edges[1].latency, trace::ms(4));
  EXPECT_EQ(edges[0].worked, trace::ms(5));
  EXPECT_EQ(edges[0].longest, trace::ms(6));
  const std::vector<actor_summary> actors = summarize_actors(run, trace::ms(5));
  ASSERT_EQ(actors.size(), 2U);
  EXPECT_EQ(actors[0].working, trace::ms(3));
  EXPECT_EQ(actors[1].working, trace::ms(13));
}

TEST(Summary, CountsARangeWithinAMessageOnce) {
  small_run one;
  one.made.range(one.server, trace::range_name::apply, 1, trace::us(6'500), trace::ms(8));
  EXPECT_EQ(one.sum().actors[0].working, trace::ms(4));
}

TEST(Summary, TellsHowOftenAndHowLongProcessesDidNotRun) {
  small_run one;
  EXPECT_TRUE(one.sum().stalls.empty());
  one.made.actor(one.trainer, "trainer 0", 1);
  one.made.edit().processes[1].pid = 4321;
  one.made.stalled(one.trainer, trace::ms(4), trace::ms(5));
  one.made.stalled(one.trainer, trace::ms(15), trace::ms(19));
  const causality index(one.made.done());
  const summary sum = summarize(index);
  ASSERT_EQ(sum.stalls.size(), 1U);
  EXPECT_EQ(sum.stalls[0].process, 1U);
  EXPECT_EQ(sum.stalls[0].times, 2U);
  EXPECT_EQ(sum.stalls[0].sum, trace::ms(5));
  EXPECT_EQ(sum.stalls[0].longest, trace::ms(4));
  const std::string text = summary_text(index, sum, 10);
  const auto at = text.find("Not running");
  ASSERT_NE(at, text.npos) << text;
  EXPECT_NE(text.find("4321", at), text.npos) << text;
  const boost::json::object json = summary_json(index, sum);
  EXPECT_EQ(json.at("stalls").at(0).at("time_ns"), trace::ms(5));
  EXPECT_EQ(json.at("stalls").at(0).at("times"), 2);
}

/// The run lasts from 3 to 20 ms. Device 0 is busy from 4 to 7 and from 8 to 11 ms: two of its streams overlap.
TEST(Summary, TellsWhatDevicesDidForWhomAndHowLongTheyDidNothing) {
  small_run one;
  EXPECT_EQ(summary_text(causality(one.made.done()), one.sum(), 10).find("device"), std::string::npos);
  one.made.edit().processes[0].host = "alpha";
  one.made.on_device(one.trainer, 0, trace::range_name::forward_backward, 1, trace::ms(4), trace::ms(5));
  one.made.on_device(one.trainer, 0, trace::range_name::forward_backward, 2, trace::ms(5), trace::ms(7));
  one.made.on_device(one.trainer, 0, trace::range_name::forward_backward, 3, trace::ms(8), trace::ms(11));
  one.made.on_device(one.trainer, 0, trace::range_name::copy, 3, trace::ms(9), trace::ms(10));
  one.made.on_device(one.server, 1, trace::range_name::pool, 1, trace::ms(4), trace::ms(12));
  const causality index(one.made.done());
  const summary sum = summarize(index);
  EXPECT_EQ(sum.actors[1].working, trace::ms(13)) << "the host's alone";
  ASSERT_EQ(sum.devices.works.size(), 3U);
  EXPECT_EQ(sum.devices.works[0].actor, one.server);
  const device_use::work& most = sum.devices.works[1];
  EXPECT_EQ(most.actor, one.trainer);
  EXPECT_EQ(most.what, trace::range_name::forward_backward);
  EXPECT_EQ(most.times, 3U);
  EXPECT_EQ(most.median, trace::ms(2));
  EXPECT_EQ(most.sum, trace::ms(6));
  ASSERT_EQ(sum.devices.devices.size(), 2U);
  EXPECT_EQ(sum.devices.devices[0].host, "alpha");
  EXPECT_EQ(sum.devices.devices[0].busy, trace::ms(6));
  EXPECT_EQ(sum.devices.devices[1].busy, trace::ms(8));
  const boost::json::object json = summary_json(index, sum);
  EXPECT_EQ(json.at("device_work").at(1).at("what"), "forward/backward");
  EXPECT_EQ(json.at("device_work").at(1).at("median_ns"), trace::ms(2));
  EXPECT_EQ(json.at("devices").at(0).at("idle_ns"), trace::ms(11));
  const std::string text = summary_text(index, sum, 10);
  const auto at = text.find("Work on devices");
  ASSERT_NE(at, text.npos) << text;
  EXPECT_NE(text.find("11.0 ms", text.find("idle", at)), text.npos) << text;
}

TEST(Summary, ListsMessagesThatCameToNothing) {
  small_run one;
  one.made.actor(one.server).alive = false;
  const auto gone = one.made.frame(trace::kind::sent, "gradient", one.trainer, one.server, trace::ms(15), {.step = 2});
  one.made.frame(trace::kind::sent, "rows", one.server, one.trainer, trace::ms(16), {.step = 2});
  trace::event drop;
  drop.what = trace::kind::drop;
  drop.actor = one.trainer;
  drop.id = trace::made_id(one.server, 77);
  drop.aux = static_cast<std::uint16_t>(trace::drop_reason::unexpected);
  drop.begin = drop.end = trace::ms(14);
  one.made.add(drop);
  const summary sum = one.sum();
  ASSERT_EQ(sum.lost.size(), 2U);
  EXPECT_EQ(sum.lost[0].id, drop.id);
  EXPECT_EQ(sum.lost[0].why, "unexpected");
  EXPECT_EQ(sum.lost[1].id, gone);
  EXPECT_EQ(sum.lost[1].why, "server 0 had ended");
}

TEST(Summary, DoesNotCallLostWhatMayHaveBeenOverwritten) {
  small_run one;
  one.made.actor(one.server).alive = false;
  one.made.frame(trace::kind::sent, "gradient", one.trainer, one.server, trace::ms(15));
  one.made.edit().processes[0].dropped = 1;
  one.made.edit().processes[0].filtered = true;
  EXPECT_TRUE(one.sum().lost.empty());
}

TEST(Summary, ListsRequestsThatAreOpen) {
  small_run one;
  one.made.actor(one.trainer).open.push_back({one.second, one.made.type("lookup"), one.server, 2, trace::ms(5)});
  const auto stranger =
      one.made.handled("status", 0xffff, one.server, trace::ms(1, 0, 2, 2), {.flags = flag::request | flag::parked});
  const auto heard =
      one.made.handled("status", 0xffff, one.server, trace::ms(1, 0, 2, 2), {.flags = flag::request | flag::parked});
  one.made.released(one.server, trace::made_id(one.server, 40), one.second, trace::ms(7));
  one.made.handled("run status", one.server, one.trainer, trace::ms(0, 0, 8, 8),
                   {.cause = heard, .flags = flag::answer, .sequence = 40});
  const summary sum = one.sum();
  ASSERT_EQ(sum.unanswered.size(), 2U);
  EXPECT_EQ(sum.unanswered[0].id, stranger);
  EXPECT_EQ(sum.unanswered[1].id, one.second);
  EXPECT_EQ(sum.unanswered[1].peer, one.server);
}

TEST(Summary, IsShownAsTextAndAsJson) {
  small_run one;
  one.made.edit().processes[0].overwritten = 1234;
  one.made.edit().warnings.push_back("ring-3.trace: cut short");
  const causality index(one.made.done());
  const summary sum = summarize(index);
  const std::string text = summary_text(index, sum, 1);
  EXPECT_EQ(text.rfind("3 messages, 1.1 KiB, of 2 actors in 1 process, in 17.0 ms\n", 0), 0U) << text;
  EXPECT_NE(text.find("1,234"), text.npos);
  EXPECT_NE(text.find("... and 1 more"), text.npos);
  const boost::json::object json = summary_json(index, sum);
  EXPECT_EQ(json.at("edges").as_array().size(), 2U);
  EXPECT_EQ(json.at("edges").as_array()[0].as_object().at("type").as_string(), "rows");
  EXPECT_EQ(json.at("actors").as_array()[0].as_object().at("longest_message").as_string(), "trainer 0 #2");
  EXPECT_EQ(json.at("processes").as_array()[0].as_object().at("overwritten").to_number<int>(), 1234);
  EXPECT_EQ(json.at("warnings").as_array()[0].as_string(), "ring-3.trace: cut short");
}

TEST(Summary, OfNothingIsEmpty) {
  const trace::recording run;
  const causality index(run);
  const summary sum = summarize(index);
  EXPECT_EQ(sum.messages, 0U);
  EXPECT_TRUE(sum.steps.whole.empty());
  EXPECT_FALSE(summary_text(index, sum, 10).empty());
}

}  // namespace
}  // namespace troupe::analysis::summary_test
