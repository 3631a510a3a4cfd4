// Goal: `troupe status` shows the members and what each waits for, `troupe stop` ends a run well, and both report in
// one line why they cannot. Method: a master that waits for members, and a run that would take days, asked by the
// program.

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/end_to_end/program.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::status_test {
namespace {

constexpr const char* right_token = "a token of the run of this test";

launch with_token(const std::string& token = right_token) {
  launch how;
  how.environment = {{"TROUPE_TOKEN", token}};
  return how;
}

/// Waits until the program prints its listening address, and returns it.
std::string where_it_listens(program& leader) {
  EXPECT_TRUE(leader.wait_for_error(" for "));
  const std::string mark = "listening on ";
  const std::string& told = leader.error();
  const std::size_t begin = told.find(mark);
  EXPECT_NE(begin, std::string::npos) << told;
  if (begin == std::string::npos) return "127.0.0.1:1";
  return told.substr(begin + mark.size(), told.find(' ', begin + mark.size()) - begin - mark.size());
}

args master(const args& more = {}) {
  return with(description_of("master --listen 127.0.0.1:0 --data tutorial --epochs 1000000 --trainers 2 --json"), more);
}

/// A run whose epochs are so long that its unread output fits into a pipe.
args endless_processes(const args& more = {}) {
  return with(
      description_of("train --processes --data synthetic --rows 1000 --batch-size 2048 --trainers 2 --json --epochs "
                     "1000000000"),
      more);
}

TEST(Status, OfAMasterThatWaitsSaysForWhom) {
  program leader(master(), with_token());
  const std::string where = where_it_listens(leader);
  const outcome first = run({"status", where, "--json"}, with_token());
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.err, "");
  const auto told = last_event(first, "status");
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.at("phase"), "waiting for members");
  EXPECT_EQ(told.at("step"), 0);
  EXPECT_GT(told.at("total_steps").to_number<std::uint64_t>(), 0u);
  EXPECT_TRUE(told.at("samples_per_s").is_null());
  EXPECT_TRUE(told.at("nodes").as_array().empty());
  ASSERT_EQ(told.at("waits").as_array().size(), 1u);
  EXPECT_EQ(told.at("waits").at(0).at("what"), "1 server and 2 trainers to join");

  program server({"join", where, "--as", "server", "--name", "big"}, with_token());
  ASSERT_TRUE(server.wait_for_error("joined as server 0"));
  const outcome second = run({"status", where}, with_token());
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_FINDS(second.out, "waiting for 2 trainers to join\n");
  EXPECT_FINDS(second.out, "big");

  const outcome stopped = run({"stop", where}, with_token());
  EXPECT_EQ(stopped.exit_code, 0) << stopped.err;
  EXPECT_FINDS(stopped.out, where);
  const outcome end = leader.finish();
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_EQ(last_event(end, "done").at("stopped"), true);
  EXPECT_EQ(end.err.find("was not accepted"), std::string::npos) << end.err;
  EXPECT_EQ(server.finish().exit_code, 0);
}

TEST(Status, OfARunTellsItsProcessesAndRates) {
  program leader(endless_processes(), with_token());
  const std::string where = where_it_listens(leader);
  ASSERT_TRUE(leader.wait_for_output("\"event\":\"epoch\""));
  boost::json::object told;
  // The rate comes with the first report, a tenth of a second after the first step.
  for (int i = 0; i < 100; ++i) {
    told = last_event(run({"status", where, "--json"}, with_token()), "status");
    ASSERT_FALSE(told.empty());
    if (!told.at("samples_per_s").is_null()) break;
  }
  EXPECT_EQ(told.at("phase"), "training");
  EXPECT_GT(told.at("step").to_number<std::uint64_t>(), 0u);
  EXPECT_GT(told.at("samples_per_s").to_number<double>(), 0);
  EXPECT_GT(told.at("steps_per_s").to_number<double>(), 0);
  EXPECT_GE(told.at("progress_age_s").to_number<double>(), 0);
  EXPECT_EQ(told.at("servers"), 1);
  EXPECT_EQ(told.at("trainers"), 2);
  ASSERT_EQ(told.at("nodes").as_array().size(), 3u);
  for (const auto& node : told.at("nodes").as_array()) {
    EXPECT_GT(node.at("pid").to_number<int>(), 0);
    EXPECT_FALSE(node.at("host").as_string().empty());
    EXPECT_EQ(node.at("ranks").as_array().size(), 1u);
    EXPECT_TRUE(node.at("links").is_array());
  }
  ASSERT_EQ(told.at("actors").as_array().size(), 3u);
  EXPECT_EQ(told.at("actors").at(0).at("name"), "server 0");
  EXPECT_EQ(told.at("actors").at(2).at("name"), "trainer 1");
  for (const auto& wait : told.at("waits").as_array())
    for (const char* field : {"who", "what", "step", "on"}) EXPECT_TRUE(wait.as_object().contains(field)) << field;

  const outcome text = run({"status", where}, with_token());
  EXPECT_EQ(text.exit_code, 0) << text.err;
  for (const char* part : {"phase           training\n", "samples/s", "member", "trainer 1"})
    EXPECT_FINDS(text.out, part) << part << "\n" << text.out;

  EXPECT_EQ(run({"stop", where, "--json"}, with_token()).exit_code, 0);
  const outcome end = leader.finish();
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_EQ(last_event(end, "done").at("stopped"), true);
}

TEST(Stop, EndsARunWithACheckpoint) {
  const model::checkpoint_folder folder;
  program leader(endless_processes({"--save", folder.path()}), with_token());
  const std::string where = where_it_listens(leader);
  ASSERT_TRUE(leader.wait_for_output("\"event\":\"epoch\""));
  const outcome stopped = run({"stop", where, "--json"}, with_token());
  EXPECT_EQ(stopped.exit_code, 0) << stopped.err;
  EXPECT_EQ(last_event(stopped, "stop").at("master").as_string(), where);
  const outcome end = leader.finish();
  EXPECT_EQ(end.exit_code, 0) << end.err;
  const auto done = last_event(end, "done");
  ASSERT_FALSE(done.empty());
  EXPECT_EQ(done.at("stopped"), true);
  const auto saved = json_lines(run({"checkpoint", "list", folder.path(), "--json"}).out);
  ASSERT_FALSE(saved.empty());
  EXPECT_EQ(saved.front().at("step"), done.at("steps"));
  EXPECT_EQ(saved.front().at("whole"), true);
}

TEST(Status, RefusalsAreOneLine) {
  program leader(master(), with_token());
  const std::string where = where_it_listens(leader);
  for (const char* command : {"status", "stop"}) {
    const std::string wrong = expect_error(run({command, where}, with_token("another token, of another run")), 1);
    EXPECT_FINDS(wrong, where);
    EXPECT_FINDS(wrong, "token");
    const std::string nobody = expect_error(run({command, "127.0.0.1:1"}, with_token()), 1);
    EXPECT_FINDS(nobody, "127.0.0.1:1");
    expect_error(run({command}, with_token()), 2);
    expect_error(run({command, "7000"}, with_token()), 2);
    expect_error(run({command, where, "--timeout", "0"}, with_token()), 2);
    expect_error(run({command, where}, with_token("short")), 2);
  }
  EXPECT_EQ(last_event(run({"status", where, "--json"}, with_token()), "status").at("phase"), "waiting for members");
}

TEST(Processes, WithoutATokenOfTheirOwnAreNotToldOf) {
  launch how;
  how.environment = {{"TROUPE_TOKEN", ""}};
  const outcome quiet = run({"train", "--processes", "--data", "tutorial", "--steps", "5"}, how);
  EXPECT_EQ(quiet.exit_code, 0) << quiet.err;
  EXPECT_EQ(quiet.err.find("listening"), std::string::npos) << quiet.err;
  const std::string file = write_file("token", std::string(right_token) + "\n");
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  const outcome told = run({"train", "--processes", "--data", "tutorial", "--steps", "5", "--token-file", file}, how);
  EXPECT_EQ(told.exit_code, 0) << told.err;
  EXPECT_FINDS(told.err, "listening on 127.0.0.1:");
  expect_error(run({"train", "--processes", "--data", "tutorial"}, with_token("short")), 2);
}

TEST(Processes, HavePlainLinksWhereTheTokenEncryptsThoseOfOthers) {
  program leader(endless_processes(), with_token());
  const std::string where = where_it_listens(leader);
  for (const auto& how : {args{}, {"--insecure"}}) {
    const outcome asked = run(with({"status", where, "--json"}, how), with_token());
    EXPECT_EQ(last_event(asked, "status").at("trainers").is_number(), true);
  }
  EXPECT_EQ(run({"stop", where}, with_token()).exit_code, 0);
  EXPECT_EQ(leader.finish().exit_code, 0);
}

TEST(Processes, HaveEncryptedLinksWhereTheyAreAskedFor) {
  program leader(endless_processes({"--tls"}), with_token());
  const std::string where = where_it_listens(leader);
  const std::string plain = expect_error(run({"status", where, "--insecure"}, with_token()), 1);
  EXPECT_FINDS(plain, "uses TLS, this side does not");
  ASSERT_TRUE(leader.wait_for_output("\"event\":\"epoch\"")) << leader.error();
  EXPECT_EQ(run({"stop", where}, with_token()).exit_code, 0);
  EXPECT_EQ(leader.finish().exit_code, 0);
}

}  // namespace
}  // namespace troupe::end_to_end::status_test
