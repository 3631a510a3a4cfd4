// Goal: a fault within a process ends the run at once and names its location if it would recur, and else costs an
// attempt; a process that wakes after its run has continued without it changes nothing. Method: exceptions and aborts
// at messages, SIGCONT after the next attempt has begun.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <regex>

#include "tests/end_to_end/several.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::process_faults_test {
namespace {

const args two_each = {"--servers", "2", "--trainers", "2"};
const args short_job = {"--data", "tutorial", "--steps", "24", "--seed", "7", "--servers", "2", "--trainers", "2"};

launch with_fault(const std::string& fault) {
  launch how;
  how.program = TROUPE_FAULTY_PROGRAM;
  how.environment = {{"TROUPE_FAULTS", fault}};
  return how;
}

std::size_t count_of(const outcome& from, std::string_view event) {
  return static_cast<std::size_t>(std::ranges::count_if(
      json_lines(from.out), [&](const auto& one) { return one.at("event").as_string() == event; }));
}

// -- exceptions and aborts --------------------------------------------------------------

struct place_of_fault {
  const char* actor;
  int at;
  const char* told;  ///< expected in the error line
};

void PrintTo(const place_of_fault& one, std::ostream* out) { *out << one.actor << " at " << one.at; }

std::string name_of_place(const testing::TestParamInfo<place_of_fault>& one) {
  std::string name = one.param.actor;
  std::erase(name, '-');
  return name;
}

class FaultOf : public testing::TestWithParam<place_of_fault> {
 protected:
  args command() const {
    return with(with({"train", "--json", "--processes"}, short_job),
                {"--save", folder_.path(), "--checkpoint-every", "6"});
  }

  const model::checkpoint_folder folder_;
};

TEST_P(FaultOf, AnExceptionEndsTheRunAtOnceWithItsPlace) {
  const outcome ended =
      run(command(), with_fault(fmt::format("throw actor={} at={}", GetParam().actor, GetParam().at)));
  EXPECT_TRUE(ended.in_time);
  EXPECT_EQ(ended.exit_code, 1) << ended.err;
  EXPECT_EQ(count_of(ended, "attempt"), 0U) << ended.out;
  // The master may first hear of a failed allreduce from a trainer that waited for it.
  const std::string expected =
      fmt::format("troupe: error: (trainer \\d, step \\d+: )?{}.*step \\d+: .*thrown on purpose", GetParam().told);
  EXPECT_TRUE(std::regex_search(ended.err, std::regex(expected))) << ended.err;
}

TEST_P(FaultOf, AnAbortCostsAnAttempt) {
  static const std::string expected = digest_of(run(with({"train", "--json"}, short_job)));
  const std::string once = folder_.path() + "-ended";
  const outcome ended =
      run(command(), with_fault(fmt::format("abort actor={} at={} once={}", GetParam().actor, GetParam().at, once)));
  EXPECT_TRUE(std::filesystem::remove(once));
  EXPECT_EQ(digest_of(ended), expected) << ended.err;
  EXPECT_EQ(last_event(ended, "done").at("attempts").to_number<int>(), 2);
  EXPECT_FINDS(ended.out, "was ended by signal 6");
}

INSTANTIATE_TEST_SUITE_P(An, FaultOf,
                         testing::Values(place_of_fault{"master", 20, "master"},
                                         place_of_fault{"server-1", 20, "server 1"},
                                         place_of_fault{"server-0-applies", 10, "server 0"},
                                         place_of_fault{"trainer-1-sends", 21, "trainer 1"},
                                         place_of_fault{"trainer-0-sends", 22, "trainer 0"},
                                         place_of_fault{"allreduce", 20, "allreduce"}),
                         name_of_place);

// -- deaths when all is done --------------------------------------------------------------

/// Some processes have received the end and are gone, others have not.
TEST(Death, AmidTheEndOfARunLosesNothing) {
  const args brief = {"train", "--json", "--processes", "--data", "tutorial", "--steps", "40", "--seed", "7"};
  const std::string expected = digest_of(run(brief));
  for (std::size_t gone = 0; gone < 4; ++gone) {
    const model::checkpoint_folder folder;
    program running(with(brief, {"--save", folder.path(), "--checkpoint-every", "20", "--rejoin-timeout", "300"}));
    ASSERT_TRUE(running.wait_for_output("\"event\":\"epoch\"")) << running.error();
    const pid_t leader = leader_of(running.process());
    ASSERT_TRUE(running.wait_for_output("\"event\":\"checkpoint\",\"step\":40,")) << running.error();
    const auto leads = [&](const std::vector<pid_t>& all) { return std::ranges::find(all, leader) != all.end(); };
    auto left = children_of(running.process());  // the leader, a server and two trainers
    while (leads(left) && left.size() > 4 - gone) left = children_of(running.process());
    if (leads(left)) kill(leader, SIGKILL);
    EXPECT_EQ(digest_of(running.finish()), expected) << gone;
  }
}

/// Text output also reports each epoch once; of short epochs it shows only a few.
TEST(Death, OfTheLeaderTellsNoEpochTwice) {
  const model::checkpoint_folder folder;
  program running({"train", "--data", "adult", "--epochs", "6", "--batch-size", "16", "--hidden", "16", "--save",
                   folder.path(), "--checkpoint-every", "700"});
  ASSERT_TRUE(running.wait_for_error("epoch 1:")) << running.error();
  ASSERT_EQ(kill(leader_of(running.process()), SIGKILL), 0);
  const outcome ended = running.finish();
  EXPECT_FINDS(ended.err, "attempt 2 continues");
  for (int epoch = 1; epoch <= 6; ++epoch) {
    const std::string line = fmt::format("epoch {}:", epoch);
    const std::size_t found = ended.err.find(line);
    if (found == std::string::npos) continue;
    EXPECT_EQ(ended.err.find(line, found + 1), std::string::npos) << ended.err;
  }
}

// -- processes that wake after their replacement -----------------------------------------

/// Entries of a checkpoint folder, without the letters that distinguish saves.
args entries_without_marks(const std::string& folder) {
  constexpr std::size_t step_letters = std::string_view("step-000000000000").size();
  args all = model::entries_of(folder);
  for (std::string& one : all)
    if (std::filesystem::is_directory(folder + "/" + one)) one.resize(step_letters);
  return all;
}

TEST(Zombie, OfARunThatHasGoneOnChangesNothing) {
  // 1,800 steps, of which 1,700 remain when the process is stopped.
  const args job = {"--data", "tutorial", "--epochs", "600", "--seed", "7"};
  const auto options = [&](const std::string& folder) {
    return with(with(job, two_each), {"--save", folder, "--checkpoint-every", "100", "--rejoin-timeout", "0.5"});
  };
  const model::checkpoint_folder unbroken;
  const std::string expected = digest_of(run(with({"train", "--json"}, options(unbroken.path()))));
  const model::checkpoint_folder folder;
  gathered_run several(options(folder.path()), {"--dead-after", "1"});
  several.join_all(2, 1);
  program& zombie = several.join_as("trainer");
  ASSERT_TRUE(several.master().wait_for_output("\"event\":\"checkpoint\",\"step\":100,")) << several.master().error();
  const pid_t stopped = zombie.process();
  ASSERT_EQ(kill(stopped, SIGSTOP), 0);
  several.set_aside(stopped);
  ASSERT_TRUE(several.master().wait_for_output("\"event\":\"attempt\"")) << several.master().error();
  ASSERT_EQ(kill(stopped, SIGCONT), 0);
  EXPECT_EQ(several.finish(), expected);
  const outcome woken = zombie.finish();
  EXPECT_TRUE(woken.in_time);
  EXPECT_NE(woken.exit_code, 0) << woken.err;
  EXPECT_EQ(woken.signal, 0) << woken.err;
  EXPECT_EQ(entries_without_marks(folder.path()), entries_without_marks(unbroken.path()));
}

}  // namespace
}  // namespace troupe::end_to_end::process_faults_test
