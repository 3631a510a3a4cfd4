#include "page/metrics.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <regex>
#include <set>
#include <sstream>

#include "tests/page/made_run.hpp"
#include "tests/page/made_source.hpp"
#include "tests/trace/made_recording.hpp"
#include "trace/analysis/overview.hpp"

namespace troupe::page::metrics_test {
namespace {

using trace::ms;

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(Metrics, AreWellFormed) {
  const reading of = *made_source::over(make_run({.has_odd_names = true}));
  totals sums;
  sums.add(*of.what);
  std::istringstream text(metrics_text(of, sums));
  const std::regex help("# HELP (troupe_[a-z_]+) [^\\n]+");
  const std::regex type("# TYPE (troupe_[a-z_]+) (counter|gauge)");
  const std::regex sample(R"((troupe_[a-z_]+)(\{[a-z]+="([^"\\]|\\.)*"(,[a-z]+="([^"\\]|\\.)*")*\})? )"
                          R"((-?[0-9.]+(e[-+]?[0-9]+)?|[+-]?Inf|NaN))");
  std::string name;
  std::set<std::string> names;
  std::set<std::string> series;
  std::smatch found;
  for (std::string line; std::getline(text, line);) {
    if (std::regex_match(line, found, help)) {
      name = found[1];
      EXPECT_TRUE(names.insert(name).second) << "twice: " << name;
    } else if (std::regex_match(line, found, type)) {
      EXPECT_EQ(found[1], name);
      EXPECT_EQ(found[2] == "counter", name.ends_with("_total")) << name;
    } else {
      ASSERT_TRUE(std::regex_match(line, found, sample)) << line;
      EXPECT_EQ(found[1], name);
      EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << "twice: " << line;
    }
  }
  EXPECT_GT(names.size(), 20u);
}

TEST(Metrics, TellTheErrorsOfPredictedNumbers) {
  const reading of = *made_source::over(make_run({.steps = 20, .predicts_numbers = true}));
  totals sums;
  sums.add(*of.what);
  const std::string text = metrics_text(of, sums);
  EXPECT_TRUE(has_line(text, "troupe_test_loss 0.25")) << text;
  EXPECT_TRUE(has_line(text, "troupe_rmse 0.5")) << text;
}

TEST(Metrics, NameThoseThatAProgramHasAdded) {
  trace::made_recording made;
  for (const std::uint16_t number : {0, 1}) {
    const auto given = static_cast<std::uint16_t>(trace::given_names_begin + number);
    made.edit().types[given] = number == 0 ? "mae" : "top-3";
    for (const double value : {0.75, 0.5 + number}) {
      trace::event e;
      e.what = trace::kind::metric;
      e.type = given;
      e.raw = std::bit_cast<std::uint64_t>(value);
      made.add(e);
    }
  }
  const reading of = *made_source::over(made.done());
  totals sums;
  sums.add(*of.what);
  const std::string text = metrics_text(of, sums);
  EXPECT_TRUE(has_line(text, "troupe_metric{name=\"mae\"} 0.5")) << text;
  EXPECT_TRUE(has_line(text, "troupe_metric{name=\"top-3\"} 1.5")) << text;
  EXPECT_EQ(analysis::run_json(*of.what).at("figures").at("mae"), 0.5);
}

TEST(Metrics, SumUpWhatWasHandled) {
  trace::made_recording made(1, 1);
  made.handled("lookup", 3, 2, trace::ms(0, 1, 3, 10), {.bytes = 100});
  made.handled("lookup", 3, 2, trace::ms(5, 6, 10, 15), {.bytes = 50});
  made.range(2, trace::range_name::pool, 1, trace::ms(11), trace::ms(14));
  made.range(2, trace::range_name::save, 1, trace::ms(20), trace::ms(30));
  made.step(3, 7, trace::ms(0), trace::ms(250));
  const reading of = *made_source::over(made.done());
  totals sums;
  sums.add(*of.what);
  const std::string text = metrics_text(of, sums);
  EXPECT_TRUE(has_line(text, R"(troupe_messages_handled_total{actor="server 0",type="lookup"} 2)")) << text;
  EXPECT_TRUE(has_line(text, R"(troupe_message_bytes_total{actor="server 0",type="lookup"} 150)"));
  EXPECT_TRUE(has_line(text, R"(troupe_message_latency_seconds_total{actor="server 0",type="lookup"} 0.02)"));
  EXPECT_TRUE(has_line(text, R"(troupe_message_queued_seconds_total{actor="server 0",type="lookup"} 0.006)"));
  EXPECT_TRUE(has_line(text, R"(troupe_actor_working_seconds_total{actor="server 0"} 0.022)"));
  EXPECT_TRUE(has_line(text, R"(troupe_steps_total{actor="trainer 0"} 1)"));
  EXPECT_TRUE(has_line(text, R"(troupe_step_seconds_total{actor="trainer 0"} 0.25)"));
  EXPECT_TRUE(has_line(text, "troupe_up 0"));
}

TEST(Metrics, NeverGoBackWhenARingForgets) {
  const auto with = [](int first, int last) {
    trace::made_recording made(1, 1);
    for (int i = first; i <= last; ++i)
      made.handled("lookup", 3, 2, trace::ms(0, 0, i, i + 1), {.sequence = static_cast<std::uint64_t>(i)});
    return made.done();
  };
  totals sums;
  sums.add(with(1, 5));
  sums.add(with(4, 8));    // 1 to 3 were overwritten
  sums.add(with(8, 8));    // nothing new
  sums.add(with(20, 20));  // those in between are lost
  ASSERT_EQ(sums.messages().size(), 1u);
  EXPECT_EQ(sums.messages().begin()->second.messages, 9u);
  EXPECT_EQ(sums.worked().begin()->second, trace::ms(9));
}

TEST(Metrics, BeginAnewWithAnotherRun) {
  trace::made_recording made(1, 1);
  made.handled("lookup", 3, 2, trace::ms(0, 0, 1, 2));
  totals sums;
  sums.add(made.done());
  made.edit().run = 8;
  sums.add(made.done());
  EXPECT_EQ(sums.messages().begin()->second.messages, 1u);
}

TEST(Metrics, TellWhatTheBoardsSay) {
  trace::made_recording made(1, 1);
  trace::actor_state& server = made.actor(2);
  server.handled = 12'345;
  server.step = 9;
  server.open.resize(2);
  server.open_more = 3;
  server.message_begin = trace::ms(100);
  trace::process_info& process = made.edit().processes[0];
  process.host = "a\"b\\c";
  process.pid = 7;
  process.records = 10;
  process.overwritten = 90;
  process.torn = 1;
  process.last = trace::ms(1600);
  auto of = made_source::over(made.done());
  of->live = true;
  const std::string text = metrics_text(*of, {});
  EXPECT_TRUE(has_line(text, R"(troupe_actor_messages_total{actor="server 0"} 12345)")) << text;
  EXPECT_TRUE(has_line(text, R"(troupe_actor_open_requests{actor="server 0"} 5)"));
  EXPECT_TRUE(has_line(text, R"(troupe_actor_handling_seconds{actor="server 0"} 1.5)"));
  EXPECT_TRUE(has_line(text, R"(troupe_records_total{host="a\"b\\c",pid="7",node="0"} 100)"));
  EXPECT_TRUE(has_line(text, R"(troupe_records_lost_total{host="a\"b\\c",pid="7",node="0"} 1)"));
  EXPECT_TRUE(has_line(text, "troupe_up 1"));
}

TEST(Metrics, TellTheAttemptsOfASupervisedRunAndWhatTheyLost) {
  trace::made_recording made(1, 1);
  const auto text = [&] { return metrics_text(*made_source::over(made.done()), {}); };
  EXPECT_EQ(text().find("troupe_attempts"), std::string::npos);
  made.edit().run = 25;
  made.edit().attempts = {{.number = 1, .run = 31, .last_step = 90},
                          {.number = 2, .run = 25, .last_step = 150, .redone = 50}};
  EXPECT_TRUE(has_line(text(), "troupe_attempts 2")) << text();
  EXPECT_TRUE(has_line(text(), "troupe_goodput_ratio 0.75")) << text();
}

TEST(Metrics, SayThatNothingCanBeRead) {
  reading nothing;
  nothing.problem = "no files";
  const std::string text = metrics_text(nothing, {});
  EXPECT_TRUE(has_line(text, "troupe_up 0"));
  EXPECT_TRUE(has_line(text, "troupe_trace_readable 0"));
}

}  // namespace
}  // namespace troupe::page::metrics_test
