#include "cluster/nodes/unreturned.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::nodes::unreturned_test {
namespace {

const std::string advice =
    "; a function notices a stop request where it awaits: co_await in long work, and return when that throws";

open_code function_of(const std::string& who, std::uint64_t id, std::uint64_t turn, const std::string& where) {
  return {.who = who, .what = "its function, " + where, .turn = turn, .runs = turn % 2 != 0, .id = id};
}

open_code method_of(const std::string& who, std::uint64_t id, const std::string& method) {
  return {.who = who, .what = method, .is_awaited = false, .id = id};
}

TEST(Unreturned, NamesFirstWhoDoesNotComeBack) {
  const std::vector<open_code> before = {function_of("trainer 0", 1, 8, "in step 3"),
                                         function_of("trainer 1", 2, 7, "after step 2"),
                                         function_of("trainer 2", 3, 5, "in step 9")};
  std::vector<open_code> now = before;
  now[2].turn = 11;
  EXPECT_EQ(
      unreturned_functions_text(before, now, std::nullopt),
      "trainer 1 has not returned from its function, after step 2; trainer 2 continues with its function, in step "
      "9; trainer 0 waits in its function, in step 3" +
          advice);
}

TEST(Unreturned, NamesTheMethodThatWasEnteredLastOfThoseThatDoNotComeBack) {
  const std::vector<open_code> before = {method_of("server 0", 1, "a task of its objects"),
                                         method_of("server 0", 2, "spinner.spin"), method_of("server 1", 3, "a.b")};
  const std::vector<open_code> now = {before[0], before[1], method_of("server 1", 4, "a.b")};
  EXPECT_EQ(unreturned_functions_text(before, now, std::nullopt),
            "server 0 has not returned from spinner.spin" + advice);
}

TEST(Unreturned, NamesActorsOfOtherProcessesAndWhatTheOthersWaitFor) {
  reported_run run;
  run.has_functions = true;
  run.status.nodes = {{.trains = true, .ranks = {1}, .host = "", .pid = 17, .name = {}, .links = {}},
                      {.trains = false, .ranks = {0}, .host = "there", .pid = 18, .name = {}, .links = {}}};
  run.status.actors = {{{}, "server 0", "computing", 3, {}, {}},
                       {{}, "trainer 0", "training", 3, {}, {}},
                       {{}, "trainer 1", "computing", 3, {}, {}},
                       {{}, "trainer 2", "idle", 3, {}, {}},
                       {{}, "trainer 3", "training", 3, {}, {}}};
  run.status.waits = {{"trainer 0", "counter.add", 0, "server 0"}, {"trainer 4", "rows", 3, ""}};
  EXPECT_EQ(unreturned_functions_text({}, {function_of("trainer 4", 1, 2, "in step 3")}, run),
            "server 0 (host there, pid 18) is at work and handles no message (trainer 0 waits for counter.add); "
            "trainer 1 (pid 17) has not returned from its own function or loop; "
            "trainer 4 continues with its function, in step 3; "
            "trainer 0 waits for counter.add from server 0; trainer 3 has not ended its function" +
                advice);
}

TEST(Unreturned, NamesWhatIsReadAndNoAdviceToAJob) {
  const std::vector<open_code> reading = {{.what = "--data csv:rows.csv is still being read", .is_awaited = false}};
  EXPECT_EQ(unreturned_functions_text({}, reading, std::nullopt), "--data csv:rows.csv is still being read");
  reported_run run;
  run.status.actors = {{{}, "trainer 0", "computing", 3, {}, {}}, {{}, "trainer 1", "reducing", 3, {}, {}}};
  run.status.waits = {{"trainer 1", "bucket 0", 4, "trainer 0"}};
  EXPECT_EQ(unreturned_functions_text({}, {}, run),
            "trainer 0 is at work and handles no message (trainer 1 waits for bucket 0); "
            "trainer 1 waits for bucket 0 of step 4 from trainer 0");
  EXPECT_EQ(unreturned_functions_text({}, {}, std::nullopt), "");
}

TEST(Unreturned, NamesAtMostSix) {
  std::vector<open_code> all;
  for (std::uint64_t rank = 0; rank < 9; ++rank)
    all.push_back(function_of("trainer " + std::to_string(rank), rank, 1, "in step 1"));
  const std::string text = unreturned_functions_text(all, all, std::nullopt);
  EXPECT_NE(text.find("trainer 5 has not returned"), std::string::npos) << text;
  EXPECT_EQ(text.find("trainer 6"), std::string::npos) << text;
  EXPECT_NE(text.find("; and 3 more; "), std::string::npos) << text;
}

TEST(LedRun, IsNobodysWhereThereIsNone) {
  EXPECT_FALSE(leads_run());
  EXPECT_FALSE(ask_leading_master(std::chrono::milliseconds(1)));
}

}  // namespace
}  // namespace troupe::nodes::unreturned_test
