// Formats events as lines.

#include "trace/analysis/tail.hpp"

#include <gtest/gtest.h>

#include "tests/trace/made_recording.hpp"

namespace troupe::analysis::tail_test {
namespace {

trace::made_recording busy_server() {
  trace::made_recording made{1, 2};
  // Three messages arrive at once; each takes 10 us.
  for (const std::uint64_t i : {0, 1, 2})
    made.handled(i == 1 ? "lookup" : "gradient", made.trainer(1), made.server(0),
                 {trace::us(90), trace::us(100), trace::us(100 + 10 * static_cast<std::int64_t>(i)),
                  trace::us(110 + 10 * static_cast<std::int64_t>(i))},
                 {.step = 7 + i, .cause = trace::made_id(made.server(0), 12), .bytes = 2048});
  made.range(made.server(0), trace::range_name::apply, 7, trace::us(104), trace::us(109));
  return made;
}

TEST(Tail, LinesHaveFixedColumns) {
  trace::made_recording made = busy_server();
  const trace::recording& run = made.done();
  const auto shown = tail_events(run, {});
  ASSERT_EQ(shown.size(), 4U);
  EXPECT_EQ(tail_header(),
            "     time (s)     step  actor         kind               type                 from              bytes    "
            "queued    worked  queue  because of");
  EXPECT_EQ(
      tail_line(run, shown[0]),
      "     0.000100        7  server 0      handled            gradient             trainer 1       2.0 KiB      "
      "0 ns   10.0 us      2  server 0 #12");
  EXPECT_EQ(
      tail_line(run, shown[1]),
      "     0.000104        7  server 0      range              apply                                              "
      "       5.0 us");
  EXPECT_EQ(shown[2].queue_depth, 1U);
  EXPECT_EQ(shown[3].queue_depth, 0U);
}

TEST(Tail, FiltersByActorTypeAndStep) {
  trace::made_recording made = busy_server();
  const trace::recording& run = made.done();
  const auto count = [&](std::string_view filter) { return tail_events(run, *trace::parse_filter(filter)).size(); };
  EXPECT_EQ(count("actor=server *"), 4U);
  EXPECT_EQ(count("actor=trainer *"), 0U);
  EXPECT_EQ(count("type=gradient"), 2U);
  EXPECT_EQ(count("type=apply"), 1U);
  EXPECT_EQ(count("type=gradient,type=lookup,steps=8-9"), 2U);
}

TEST(Tail, JsonNamesWhatColumnsShow) {
  trace::made_recording made = busy_server();
  const trace::recording& run = made.done();
  const boost::json::object json = tail_json(run, tail_events(run, {}).front());
  EXPECT_EQ(json.at("kind").as_string(), "handled");
  EXPECT_EQ(json.at("type").as_string(), "gradient");
  EXPECT_EQ(json.at("message").as_string(), "trainer 1 #1");
  EXPECT_EQ(json.at("because_of").as_string(), "server 0 #12");
  EXPECT_EQ(json.at("queue_depth").as_uint64(), 2U);
  EXPECT_EQ(json.at("arrived_ns").as_int64(), trace::us(100));
}

}  // namespace
}  // namespace troupe::analysis::tail_test
