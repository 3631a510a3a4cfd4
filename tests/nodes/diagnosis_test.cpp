// A diagnosis is told by what this host's rings say, before any process is asked for anything; a hang is told once.

#include "nodes/diagnosis.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/analysis/stuck_run.hpp"
#include "tests/trace/temporary_folder.hpp"

namespace troupe::nodes::diagnosis_test {
namespace {

constexpr std::uint64_t run_number = 77;

std::unique_ptr<trace::recorder> start(const std::filesystem::path& folder) {
  trace::recorder::options how;
  how.folder = folder;
  how.types = {{200, "lookup"}};
  auto made = trace::recorder::start(std::move(how));
  if (!made) throw std::runtime_error(made.error().message);
  (*made)->set_run(run_number, 0, 0);
  return std::move(*made);
}

/// A process that records as a server, and has stopped itself.
class stopped_server {
 public:
  explicit stopped_server(const std::filesystem::path& folder) : pid_(::fork()) {
    if (pid_ == 0) {
      const auto recorder = start(folder);
      recorder->add_actor(2, 0, "server 0");
      ::raise(SIGSTOP);
      ::pause();
    }
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  ~stopped_server() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

// `collect`, which asks the processes and waits for them, comes after the verdict: here it does not come at all.
TEST(Diagnosis, NamesAStoppedProcessWithoutAskingAnybody) {
  const trace::temporary_folder folder;
  const stopped_server server(folder.path());
  const auto recorder = start(folder.path());
  trace::board_entry* const trainer = recorder->add_actor(3, 0, "trainer 0");
  trainer->open[0].since.store(trace::ticks_now());
  trainer->open[0].type16_peer16.store(200U | 2U << 16);
  trainer->open[0].id.store(std::uint64_t{3} << 48 | 1);
  auto made = diagnosis::begin(*recorder, "step 4 of trainer 0 takes longer than 2 s");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(made->has_all(2));
  EXPECT_FALSE(made->has_all(3)) << "one is on another host";
  const auto verdict = made->judge(true);
  ASSERT_TRUE(verdict) << verdict.error().message;
  const std::string pid = std::to_string(server.pid());
  EXPECT_EQ(*verdict,
            "server 0 (pid " + pid + ") is stopped by a signal or a debugger; 'kill -CONT " + pid + "' lets it go on");
  EXPECT_TRUE(std::filesystem::exists(made->folder() / "summary.txt"));
  EXPECT_FALSE(std::filesystem::exists(made->folder() / "stacks.txt"));
}

// Three trainers of which one is missing: each other one notices the same hang.
TEST(Diagnosis, KnowsAHangThatItHasTold) {
  const auto hang = [](std::uint32_t missing, std::uint64_t number) {
    analysis::stuck_run r(1, 3);
    for (std::uint32_t t = 0; t < 3; ++t)
      if (t != missing)
        r.call(static_cast<std::uint16_t>(t), {.number = number, .since = trace::ms(100), .missing = {missing}});
    r.now(trace::ms(2000));
    return r.done();
  };
  const trace::recording first = hang(1, 26);
  const known_hang known(first, analysis::find_blocked(first));
  EXPECT_TRUE(known.is_still_there(hang(1, 26)));
  EXPECT_FALSE(known.is_still_there(hang(2, 26))) << "another one is missing";
  trace::recording later = hang(1, 27);
  for (trace::actor_state& one : later.actors) one.step = 5;
  EXPECT_FALSE(known.is_still_there(later)) << "all have come further since";
}

TEST(Diagnosis, ACallOutsideOfStepsHasTheTimeoutOfOne) {
  const trace::temporary_folder folder;
  const auto recorder = start(folder.path());
  recorder->add_actor(3, 0, "trainer 0");
  trace::call_state call{.since = 1, .number = 4};
  call.set_text("barrier");
  for (const std::uint32_t rank : {0U, 1U}) call.members.add(rank);
  call.missing.add(1);
  recorder->add_call(3)->show(call);
  watchdog looking(recorder.get(), std::chrono::seconds(2));
  EXPECT_EQ(looking.look(), "barrier #4 of trainers 0, 1 takes trainer 0 longer than 2 s (--step-timeout)");
  EXPECT_EQ(looking.look(), std::nullopt) << "once";
  EXPECT_EQ(watchdog(recorder.get(), std::nullopt).look(), std::nullopt) << "a call may wait for long";
}

}  // namespace
}  // namespace troupe::nodes::diagnosis_test
