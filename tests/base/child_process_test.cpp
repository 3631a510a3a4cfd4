#include "base/child_process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>

#include "base/host.hpp"

namespace troupe::child_process_test {
namespace {

/// The output and exit code of a shell that runs `script` with these options.
struct printed {
  std::string text;
  std::optional<int> exit_code;
  std::optional<int> signal;
};

printed run(const std::string& script, child_options options = {}) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  options.out = ends[1];
  auto child = child_process::start("/bin/sh", {"sh", "-c", script}, options);
  ::close(ends[1]);
  if (!child) return {child.error().message, {}, {}};
  printed made;
  for (char next = 0; ::read(ends[0], &next, 1) == 1;) made.text += next;
  ::close(ends[0]);
  child->wait();
  made.exit_code = child->exit_code();
  made.signal = child->signal();
  return made;
}

TEST(ChildProcess, GetsItsArgumentsAndTellsItsExitCode) {
  const printed made = run("echo \"$0\"; exit 7");
  EXPECT_EQ(made.text, "sh\n");
  EXPECT_EQ(made.exit_code, 7);
  EXPECT_EQ(made.signal, std::nullopt);
}

TEST(ChildProcess, TellsTheSignalThatEndedIt) {
  const printed made = run("kill -TERM $$");
  EXPECT_EQ(made.exit_code, std::nullopt);
  EXPECT_EQ(made.signal, SIGTERM);
}

TEST(ChildProcess, HasVariablesInPlaceOfItsParents) {
  ASSERT_EQ(::setenv("TROUPE_TEST_KEPT", "kept", 1), 0);
  ASSERT_EQ(::setenv("TROUPE_TEST_REPLACED", "old", 1), 0);
  child_options options;
  options.variables = {"TROUPE_TEST_REPLACED=new", "TROUPE_TEST_ADDED=added"};
  EXPECT_EQ(run("echo $TROUPE_TEST_KEPT $TROUPE_TEST_REPLACED $TROUPE_TEST_ADDED", options).text, "kept new added\n");
  EXPECT_EQ(run("env | grep -c ^TROUPE_TEST_REPLACED=", options).text, "1\n");
}

TEST(ChildProcess, ReadsNothingUnlessItIsGivenAnInput) { EXPECT_EQ(run("cat; echo end").text, "end\n"); }

TEST(ChildProcess, IsStoppedAndContinuedWithItsParentsGroup) {
  EXPECT_EQ(run("cut -d' ' -f5 /proc/$$/stat").text, std::to_string(::getpgrp()) + "\n");
}

TEST(ChildProcess, HearsOfSignalsThatAreHeldOnlyWhenItReleasesThem) {
  child_options options;
  options.held_signals = {SIGTERM};
  const printed made = run("kill -TERM $$; echo continues", options);
  EXPECT_EQ(made.text, "continues\n");
  EXPECT_EQ(made.exit_code, 0);
  sigset_t before;
  sigset_t held;
  sigemptyset(&held);
  sigaddset(&held, SIGUSR2);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &held, &before), 0);
  release_signals();
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &before, &held), 0);
  EXPECT_EQ(sigismember(&held, SIGUSR2), 0);
}

TEST(ChildProcess, HearsWhatItsParentBlocksAndIgnoresWhatThatIgnoresUnlessToldOtherwise) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  const auto pipe_before = std::signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(run("kill -TERM $$").signal, SIGTERM);
  EXPECT_EQ(run("kill -PIPE $$").exit_code, 0);
  child_options options;
  options.default_signals = {SIGPIPE};
  EXPECT_EQ(run("kill -PIPE $$", options).signal, SIGPIPE);
  std::signal(SIGPIPE, pipe_before);
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
}

TEST(ChildProcess, IsSeenToStopAndKilledAllTheSame) {
  auto child = child_process::start("/bin/sh", {"sh", "-c", "kill -STOP $$; while :; do :; done"}, {});
  ASSERT_TRUE(child);
  EXPECT_FALSE(child->has_ended());
  while (!child->is_stopped() && !child->has_ended()) child->poll();
  EXPECT_TRUE(child->is_stopped());
  EXPECT_FALSE(child->has_ended());
  ::kill(child->pid(), SIGCONT);
  while (child->is_stopped()) child->poll();
  ::kill(child->pid(), SIGSTOP);
  while (!child->is_stopped() && !child->has_ended()) child->poll();
  EXPECT_FALSE(child->has_ended());
  child->kill();
  EXPECT_EQ(child->signal(), SIGKILL);
  EXPECT_GT(child->used().ru_maxrss, 0);
  child->kill();
  EXPECT_EQ(child->signal(), SIGKILL) << "a process that has the same number by now hears nothing";
}

TEST(ChildProcess, TellsItsEndThoughItsParentIgnoredChildren) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(run("exit 3").exit_code, 3);
  std::signal(SIGCHLD, before);
}

TEST(ChildProcess, IsKilledWithItsObject) {
  std::uint32_t pid = 0;
  {
    auto child = child_process::start("/bin/sleep", {"sleep", "600"}, {});
    ASSERT_TRUE(child);
    pid = static_cast<std::uint32_t>(child->pid());
    const child_process moved = std::move(*child);
    EXPECT_TRUE(is_alive(pid));
  }
  EXPECT_FALSE(is_alive(pid));
}

TEST(ChildProcess, SaysWhyItCannotStart) {
  const auto child = child_process::start("/nowhere/at/all", {"all"}, {});
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().message, "/nowhere/at/all: No such file or directory");
}

}  // namespace
}  // namespace troupe::child_process_test
