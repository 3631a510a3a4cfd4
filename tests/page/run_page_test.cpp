// The answers at the page's addresses, for runs made by hand.

#include "page/run_page.hpp"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>

#include "tests/page/made_run.hpp"
#include "tests/page/made_source.hpp"

namespace troupe::page::run_page_test {
namespace {

namespace json = boost::json;

class RunPage : public testing::Test {
 protected:
  void show(const made_run_options& how) { show_reading(made_source::over(make_run(how))); }
  void show_reading(std::shared_ptr<reading> what) {
    reading_ = std::move(what);
    page_ = std::make_unique<run_page>(std::make_unique<made_source>(reading_));
  }

  json::object get(const std::string& target, unsigned status = 200) {
    const http_response answer = page_->answer(*read_target(target));
    EXPECT_EQ(answer.status, status) << target << ": " << *answer.body;
    EXPECT_EQ(answer.content_type, "application/json");
    return json::parse(*answer.body).as_object();
  }

  static json::object find(const json::value& list, const char* key, const std::string& value) {
    for (const json::value& one : list.as_array())
      if (one.at(key) == json::value(value)) return one.as_object();
    ADD_FAILURE() << "nothing has " << key << " " << value;
    return {};
  }

  std::shared_ptr<reading> reading_;
  std::unique_ptr<run_page> page_;
};

TEST_F(RunPage, HasItsOwnFilesAndNoOthers) {
  show({});
  const http_response index = page_->answer(*read_target("/"));
  EXPECT_EQ(index.content_type, "text/html; charset=utf-8");
  EXPECT_NE(index.body->find("<script type=\"module\" src=\"/page.js\">"), std::string::npos);
  EXPECT_EQ(page_->answer(*read_target("/page.js")).content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(page_->answer(*read_target("/theme.css")).content_type, "text/css; charset=utf-8");
  for (const char* elsewhere : {"/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..\\page.js", "//page.js",
                                "/web/page.js", "/page.js/", "/api", "/api/", "/api/../page.js"})
    get(elsewhere, 404);
  for (const char* no_target : {"", "*"}) EXPECT_FALSE(read_target(no_target)) << no_target;
}

TEST_F(RunPage, TellsOfTheRun) {
  show({.steps = 10});
  const json::object run = get("/api/run");
  EXPECT_EQ(run.at("run"), "0000000000000007");
  EXPECT_EQ(run.at("live"), false);
  EXPECT_EQ(run.at("mode"), "ring");
  EXPECT_EQ(run.at("processes").at(0).at("end"), "ended");
  EXPECT_EQ(run.at("master_process").to_number<int>(), 0);
  EXPECT_EQ(run.at("figures").at("loss").as_double(), run.at("figures").at("loss").as_double());
}

TEST_F(RunPage, TellsOfTheAttemptsAtASupervisedRun) {
  show({.steps = 10});
  EXPECT_TRUE(get("/api/run").at("attempts").as_array().empty());
  trace::recording second = make_run({.steps = 10});
  second.attempts = {{.number = 1, .run = 3, .from_step = 0, .last_step = 90, .ended = "server 0 was killed"},
                     {.number = 2, .run = second.run, .last_step = 150, .redone = 50}};
  show_reading(made_source::over(std::move(second)));
  const json::object run = get("/api/run");
  EXPECT_EQ(run.at("attempt").to_number<int>(), 2);
  EXPECT_EQ(run.at("goodput").to_number<double>(), 0.75);
  EXPECT_EQ(run.at("attempts").at(0).at("ended_by"), "server 0 was killed");
  EXPECT_EQ(run.at("attempts").at(0).at("from_step").to_number<int>(), 0);
  EXPECT_TRUE(run.at("attempts").at(1).at("from_step").is_null());
}

TEST_F(RunPage, DrawsWhoTalksToWhom) {
  const made_run_options how{.steps = 10, .servers = 2, .trainers = 3};
  show(how);
  const json::object graph = get("/api/topology");
  EXPECT_EQ(graph.at("actors").as_array().size(), 7u);
  EXPECT_EQ(find(graph.at("actors"), "actor", "trainer 2").at("role"), "trainer");
  std::int64_t messages = 0;
  for (const json::value& edge : graph.at("edges").as_array()) messages += edge.at("messages").as_int64();
  EXPECT_EQ(static_cast<std::uint64_t>(messages), 10 * messages_per_step(how)) << "each edge once, each message on one";
}

TEST_F(RunPage, ShowsOnlyTheLastMomentsIfAsked) {
  show({.steps = 100});
  const auto of = [&](const std::string& target) {
    return find(get(target).at("edges"), "from", "trainer 0").at("messages").as_int64();
  };
  EXPECT_LT(of("/api/topology?recent_ns=100000000"), of("/api/topology"));
}

TEST_F(RunPage, SumsTrafficUpByType) {
  show({.steps = 10, .servers = 1, .trainers = 1});
  const json::object rows = find(get("/api/traffic").at("cells"), "type", "rows");
  EXPECT_EQ(rows.at("from"), "server 0");
  EXPECT_EQ(rows.at("to"), "trainer 0");
  EXPECT_EQ(rows.at("messages"), 10);
  EXPECT_EQ(rows.at("bytes"), 10 * 260'000);
}

TEST_F(RunPage, HasCurvesOfFiguresAndOfStepTimes) {
  show({.steps = 60});
  const json::object curves = get("/api/curves");
  EXPECT_EQ(find(curves.at("curves"), "name", "loss").at("points").as_array().size(), 60u);
  EXPECT_EQ(find(curves.at("curves"), "name", "auc").at("points").as_array().size(), 3u);
  EXPECT_EQ(find(curves.at("curves"), "name", "step time").at("unit"), "ms");
}

TEST_F(RunPage, TellsTheErrorsOfPredictedNumbers) {
  show({.steps = 60, .predicts_numbers = true});
  const json::object curves = get("/api/curves");
  EXPECT_EQ(find(curves.at("curves"), "name", "test loss").at("points").as_array().size(), 3u);
  EXPECT_EQ(find(curves.at("curves"), "name", "rmse").at("points").as_array().size(), 3u);
  const json::object run = get("/api/run");
  EXPECT_EQ(run.at("figures").at("test_loss"), 0.25);
  EXPECT_EQ(run.at("figures").at("rmse"), 0.5);
}

TEST_F(RunPage, NamesTheSlowServerOfSlowSteps) {
  show({.steps = 30, .slow_from = 10, .slow_to = 20});
  const json::object slow = get("/api/step?step=15");
  EXPECT_EQ(slow.at("step"), 15);
  const json::object apply = find(slow.at("path").at("parts"), "what", "apply");
  EXPECT_EQ(apply.at("actor"), "server 1");
  EXPECT_GT(apply.at("time_ns").as_int64(), 54'000'000);
  EXPECT_EQ(slow.at("path").at("if_halved").at("of").at("actor"), "server 1");
  EXPECT_EQ(find(slow.at("path").at("actors"), "actor", "server 1").at("slack_ns"), 0);
  // The chain covers the step without gaps.
  std::int64_t at = slow.at("begin_ns").as_int64();
  for (const json::value& part : slow.at("path").at("chain").as_array()) {
    EXPECT_EQ(part.at("begin_ns"), at);
    at += part.at("time_ns").as_int64();
  }
  EXPECT_EQ(slow.at("end_ns"), at);
  EXPECT_GT(find(slow.at("actors"), "actor", "server 1").at("bars").as_array().size(), 3u);
}

TEST_F(RunPage, SumsPathsUpOverSteps) {
  show({.steps = 30, .slow_from = 10, .slow_to = 20});
  const json::object paths = get("/api/paths");
  EXPECT_EQ(paths.at("steps"), 29);
  EXPECT_EQ(paths.at("parts").at(0).at("what"), "apply");
  EXPECT_EQ(paths.at("parts").at(0).at("largest_in"), 11);
  EXPECT_EQ(get("/api/paths?last=5").at("steps"), 5);
}

TEST_F(RunPage, ListsTheLastSteps) {
  show({.steps = 30});
  const json::object steps = get("/api/steps?last=3");
  EXPECT_EQ(steps.at("recorded"), 29) << "the first one's begin is not recorded";
  EXPECT_EQ(steps.at("steps").as_array().size(), 3u);
  EXPECT_EQ(steps.at("steps").at(2).at("step"), 30);
  get("/api/step?step=99", 404);
  get("/api/step?step=x", 404);
}

TEST_F(RunPage, NamesWhatBlocks) {
  auto what = made_source::over(make_run({.steps = 12, .loses_gradient = true}));
  show_reading(what);
  const json::object blocked = get("/api/blocked");
  EXPECT_EQ(blocked.at("class"), "never_arrived");
  EXPECT_NE(blocked.at("verdict").as_string().find("server 0"), std::string::npos) << blocked.at("verdict");
  const json::object wait = find(blocked.at("waits"), "who", "trainer 2");
  EXPECT_EQ(wait.at("on"), "server 0");
  EXPECT_NE(get("/api/message?id=" + std::string(wait.at("id").as_string())).if_contains("handled"), nullptr);
}

TEST_F(RunPage, TellsAWaitFromAStandstill) {
  trace::recording run = make_run({.steps = 12, .loses_gradient = true});
  run.processes.front().last = run.end() + 100'000'000;
  auto what = made_source::over(run);
  what->live = true;
  show_reading(what);
  EXPECT_EQ(get("/api/blocked").at("moving"), true) << "a tenth of a second is not long";
  run.processes.front().last = run.end() + 5'000'000'000;
  *what = *made_source::over(run);
  what->live = true;
  show_reading(what);
  const json::object later = get("/api/blocked");
  EXPECT_EQ(later.at("moving"), false);
  EXPECT_GT(later.at("stuck_ns").as_int64(), 5'000'000'000);
  what->live = false;
  what->generation = 2;
  EXPECT_EQ(get("/api/blocked").at("moving"), false) << "a run that is over moves no more";
}

TEST_F(RunPage, FollowsAMessageToCausesAndEffects) {
  show({.steps = 12});
  const json::value lookup = get("/api/messages?type=lookup&first_step=5&last_step=5&limit=1").at("messages").at(0);
  const json::object seen = get("/api/message?id=" + std::string(lookup.at("id").as_string()));
  EXPECT_EQ(seen.at("handled").at("type"), "lookup");
  EXPECT_EQ(seen.at("causes").at(0).at("type"), "rows") << "what the trainer handled when it asked";
  EXPECT_EQ(get("/api/message?id=3.999999").if_contains("handled"), nullptr) << "not recorded";
  get("/api/message?id=nonsense", 400);
  get("/api/message", 400);
}

TEST_F(RunPage, LooksIntoWhatWasHeld) {
  show({.steps = 12});
  const json::value gradient = get("/api/messages?type=gradient&first_step=12&limit=1").at("messages").at(0);
  const json::object seen = get("/api/message?id=" + std::string(gradient.at("id").as_string()));
  const json::object grad = find(seen.at("content").at("parts"), "name", "tables[0].grad");
  EXPECT_EQ(grad.at("nan"), 1);
  EXPECT_EQ(grad.at("numbers"), 64 * 16);
}

TEST_F(RunPage, LeavesNamesAsTheyAre) {
  show({.steps = 5, .has_odd_names = true});
  EXPECT_EQ(find(get("/api/topology").at("actors"), "actor", "<script>alert(1)</script> 1").at("role"),
            "<script>alert(1)</script>");
}

TEST_F(RunPage, AnswersAnewWhenThereIsMore) {
  show({.steps = 5});
  EXPECT_EQ(get("/api/steps").at("recorded"), 4);
  *reading_ = *made_source::over(make_run({.steps = 9}));
  EXPECT_EQ(get("/api/steps").at("recorded"), 4) << "the same generation is the same recording";
  reading_->generation = 2;
  EXPECT_EQ(get("/api/steps").at("recorded"), 8);
}

TEST_F(RunPage, SaysThatThereIsNothingYet) {
  auto nothing = std::make_shared<reading>();
  nothing->problem = "/tmp/x: no trace files";
  show_reading(nothing);
  EXPECT_EQ(get("/api/run").at("problem"), "/tmp/x: no trace files");
  EXPECT_EQ(get("/api/steps", 503).at("problem"), "/tmp/x: no trace files");
  EXPECT_EQ(page_->answer(*read_target("/metrics")).status, 200u);
}

TEST_F(RunPage, CopesWithARecordingOfNothing) {
  show_reading(made_source::over({}));
  for (const char* target : {"/api/run", "/api/topology", "/api/traffic", "/api/curves", "/api/steps", "/api/paths",
                             "/api/blocked", "/api/messages", "/api/message?id=1.1"})
    get(target);
}

TEST_F(RunPage, ExportsAllOrAStep) {
  show({.steps = 30});
  const auto slices = [&](const std::string& target) {
    const json::object trace = get(target);
    std::size_t count = 0;
    for (const json::value& one : trace.at("traceEvents").as_array())
      count += one.at("ph") == "X" || one.at("ph") == "B";
    return count;
  };
  const std::size_t all = slices("/api/trace.json");
  const std::size_t step = slices("/api/trace.json?step=20");
  EXPECT_GT(step, 24u);
  EXPECT_LT(step, all / 10);
  get("/api/trace.json?step=99", 404);
}

TEST_F(RunPage, RefusesAWrongFilter) {
  show({.steps = 5});
  EXPECT_EQ(get("/api/messages?first_step=one", 400).at("problem"), "first_step is 'one', which is not a number");
}

}  // namespace
}  // namespace troupe::page::run_page_test
