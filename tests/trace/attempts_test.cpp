#include "trace/record/attempts.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "tests/trace/temporary_folder.hpp"
#include "tests/value_of.hpp"
#include "trace/record/recorder.hpp"
#include "trace/record/recording.hpp"

namespace troupe::trace::attempts_test {
namespace {

class Attempts : public testing::Test {
 protected:
  /// Leaves the ring of a process of run `run`; it leads no attempt if `supervised` is empty.
  void leave(std::uint64_t run, const std::string& supervised, std::uint64_t number = 0, const std::string& lost = {},
             std::uint64_t redone = 0, std::optional<std::uint64_t> from_step = {}) {
    recorder::options how;
    how.folder = folder_.path();
    how.ring_bytes = std::uint64_t{1} << 20;
    auto made = value_of(recorder::start(how));
    made->set_run(run, 0, 0);
    if (!supervised.empty()) made->describe(attempt_key, describe_attempt(supervised, number, lost, redone, from_step));
    made->finish(false);
  }

  result<recording> read(std::uint64_t attempt = 0, std::uint64_t run = 0) const {
    sources from;
    from.paths = {folder_.path()};
    from.attempt = attempt;
    from.run = run;
    return read_recording(from);
  }

  std::string refusal(std::uint64_t attempt = 0) const {
    const auto made = read(attempt);
    return made ? "" : made.error().message;
  }

  const temporary_folder folder_;
};

TEST_F(Attempts, OfOneRunTheNewestIsReadOrTheOneThatIsNamed) {
  leave(31, "a", 1);
  leave(31, "");
  leave(17, "a", 2, "server 0 was ended by signal 9", 12, 300);
  leave(25, "a", 3, "trainer 1 was stopped", 20);
  const auto newest = value_of(read());
  EXPECT_EQ(newest.run, 25u);
  ASSERT_EQ(newest.attempts.size(), 3u);
  EXPECT_EQ(newest.attempts[0].run, 31u);
  EXPECT_EQ(newest.attempts[0].ended, "server 0 was ended by signal 9");
  EXPECT_EQ(newest.attempts[0].from_step, std::nullopt);
  EXPECT_EQ(newest.attempts[1].from_step, 300u);
  EXPECT_EQ(newest.attempts[1].ended, "trainer 1 was stopped");
  EXPECT_EQ(newest.attempts[2].ended, "");
  EXPECT_EQ(newest.attempts[2].redone, 20u);
  const auto first = read(1);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->run, 31u);
  EXPECT_EQ(first->processes.size(), 2u);
  ASSERT_NE(first->attempt(), nullptr);
  EXPECT_EQ(first->attempt()->number, 1u);
  EXPECT_EQ(read(2)->run, 17u);
  EXPECT_EQ(read(0, 17)->run, 17u);
  EXPECT_EQ(refusal(4).substr(0, 12), "--attempt 4:");
  EXPECT_NE(refusal(4).find("attempt 1, 2, 3"), std::string::npos) << refusal(4);
}

TEST_F(Attempts, OfTwoRunsAreToldApart) {
  leave(31, "a", 1);
  leave(17, "b", 2, "lost");
  EXPECT_NE(refusal().find("these files are of 2 runs: 17 (1 file), 31 (1 file)"), std::string::npos) << refusal();
  EXPECT_NE(refusal(1).find("not of attempts at one supervised run"), std::string::npos) << refusal(1);
}

TEST_F(Attempts, DoNotHideAnotherRun) {
  leave(31, "a", 1);
  leave(17, "a", 2, "lost");
  leave(5, "");
  EXPECT_NE(refusal().find("these files are of 3 runs"), std::string::npos) << refusal();
}

TEST_F(Attempts, ThatDoNotFitTogetherAreReadAlone) {
  for (std::uint64_t number = 1; number <= 6; ++number) leave(100 + number, "a", number, "lost");
  sources from;
  from.paths = {folder_.path()};
  from.attempt = 2;
  std::uint64_t enough = 1;  // for one of them, but not for all six
  for (from.memory_bytes_max = 1; !read_recording(from); from.memory_bytes_max *= 2) enough = from.memory_bytes_max * 2;
  from.memory_bytes_max = enough;
  const auto alone = value_of(read_recording(from));
  EXPECT_EQ(alone.run, 102u);
  EXPECT_EQ(alone.attempts.size(), 6u);
}

}  // namespace
}  // namespace troupe::trace::attempts_test
