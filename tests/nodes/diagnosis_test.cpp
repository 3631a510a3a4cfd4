// The rings of this host give a diagnosis before any process is asked; each hang is reported once.

#include "cluster/nodes/diagnosis.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <caf/all.hpp>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/analysis/stuck_run.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "tests/value_of.hpp"

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

// `collect`, which asks the processes and waits for them, follows the verdict: here it is never called.
TEST(Diagnosis, NamesAStoppedProcessWithoutAskingAnybody) {
  const trace::temporary_folder folder;
  const stopped_server server(folder.path());
  const auto recorder = start(folder.path());
  trace::board_entry* const trainer = recorder->add_actor(3, 0, "trainer 0");
  trainer->open[0].since.store(trace::ticks_now());
  trainer->open[0].type16_peer16.store(200U | 2U << 16);
  trainer->open[0].id.store(std::uint64_t{3} << 48 | 1);
  auto made = value_of(diagnosis::begin(*recorder, "step 4 of trainer 0 takes longer than 2 s"));
  EXPECT_TRUE(made.has_all(2));
  EXPECT_FALSE(made.has_all(3)) << "one is on another host";
  const auto verdict = value_of(made.conclude(true));
  const std::string pid = std::to_string(server.pid());
  EXPECT_EQ(verdict, "server 0 (pid " + pid + ") is stopped by a signal or a debugger; 'kill -CONT " + pid +
                         "' lets it continue");
  EXPECT_TRUE(std::filesystem::exists(made.folder() / "summary.txt"));
  EXPECT_FALSE(std::filesystem::exists(made.folder() / "stacks.txt"));
}

// Three trainers, one of which is missing: each of the others notices the same hang.
TEST(Diagnosis, KnowsAHangThatItHasTold) {
  const auto hang = [](std::uint32_t missing, std::uint64_t number) {
    analysis::stuck_run r(1, 3);
    for (std::uint32_t t = 0; t < 3; ++t)
      if (t != missing)
        r.call(static_cast<std::uint16_t>(t), {.number = number, .since = trace::ms(100), .missing = {missing}});
    r.now(trace::ms(2000));
    return r.done();
  };
  const auto found_in = [](const trace::recording& run) { return known_hang(run, analysis::find_blocked(run)); };
  const known_hang known = found_in(hang(1, 26));
  EXPECT_TRUE(known.is_still_there(found_in(hang(1, 26))));
  EXPECT_FALSE(known.is_still_there(found_in(hang(2, 26)))) << "another one is missing";
  trace::recording later = hang(1, 27);
  for (trace::actor_state& one : later.actors) one.step = 5;
  EXPECT_FALSE(known.is_still_there(found_in(later))) << "all have come further since";
}

/// Trainer 0 has waited for trainer 1 in a barrier since tick 1.
void wait_in_barrier(trace::recorder& recorder) {
  recorder.add_actor(3, 0, "trainer 0");
  trace::call_state call{.since = 1, .number = 4};
  call.set_text("barrier");
  for (const std::uint32_t rank : {0U, 1U}) call.members.add(rank);
  call.missing.add(1);
  recorder.add_call(3)->show(call);
}

// The rings of trainers come from another host whenever one of them notices the hang.
TEST(Diagnosis, OfAHangOverHostsIsWrittenOnce) {
  const trace::temporary_folder here, there;
  const auto recorder = start(here.path());
  const auto of_trainers = start(there.path());
  of_trainers->set_run(run_number, 1, 0);
  wait_in_barrier(*of_trainers);
  of_trainers->add_actor(4, 0, "trainer 1");
  caf::actor_system_config settings;
  caf::actor_system system(settings);
  const auto leader = system.spawn([&of_trainers](caf::event_based_actor*) -> caf::behavior {
    return {[&of_trainers](const msg::collect_evidence&) {
              const std::string ring = of_trainers->copy();
              msg::evidence one;
              one.file = "of-trainers.ring";
              one.ring = msg::blob::own(std::vector<std::uint8_t>(ring.begin(), ring.end()));
              msg::collected_evidence all;
              all.parts.push_back(std::move(one));
              return all;
            },
            [](const msg::verdict_found&) {}};
  });
  const auto boss = caf::actor_cast<msg::master_actor>(leader);
  std::vector<std::string> told;
  diagnoses written(system, boss, recorder.get(), 2, [&told](const std::string& line) { told.push_back(line); });
  written.write("barrier #4 takes trainer 0 longer than 2 s");
  written.write("barrier #4 takes trainer 2 longer than 2 s");
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told[0].find("trainer 1 has not called it"), std::string::npos) << told[0];
  const auto folders = [&here] {
    return std::ranges::count_if(std::filesystem::directory_iterator(here.path()),
                                 [](const auto& one) { return one.is_directory(); });
  };
  EXPECT_EQ(folders(), 1);
  written.write(std::string(signal_here));
  EXPECT_EQ(told.size(), 2U) << "a person wants to see it again";
  EXPECT_EQ(folders(), 2);
  caf::anon_send_exit(leader, caf::exit_reason::user_shutdown);
}

TEST(Diagnosis, ACallOutsideOfStepsHasTheTimeoutOfOne) {
  const trace::temporary_folder folder;
  const auto recorder = start(folder.path());
  wait_in_barrier(*recorder);
  watchdog looking(recorder.get(), std::chrono::seconds(2));
  EXPECT_EQ(looking.look(), "barrier #4 of trainers 0, 1 takes trainer 0 longer than 2 s (--step-timeout)");
  EXPECT_EQ(looking.look(), std::nullopt) << "once";
  EXPECT_EQ(watchdog(recorder.get(), std::nullopt).look(), std::nullopt) << "a call may wait for long";
}

}  // namespace
}  // namespace troupe::nodes::diagnosis_test
