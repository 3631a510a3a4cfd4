// Goal: where the system gives a process too little of a resource, a run continues or ends with a line that names it;
// it never hangs, spins or crashes. Method: limits of address space, descriptors and threads; missing /proc and /dev.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <regex>

#include "tests/end_to_end/several.hpp"

// Sanitizers need extra address space and descriptors, and do not support stacks this large.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace troupe::end_to_end::limits_test {
namespace {

const args short_job = {"--data", "tutorial", "--steps", "24", "--seed", "7", "--servers", "2", "--trainers", "2"};

/// A job whose products are large enough for OpenBLAS.
const args multiplies = {"--data",       "synthetic", "--rows",  "100", "--hidden", "512,512",
                         "--batch-size", "512",       "--steps", "3",   "--trace",  "off"};

/// Arguments of bash that run the program after `first`.
args after(const std::string& first, const args& arguments) {
  return with({"-c", first + " && exec \"$@\"", "bash", TROUPE_PROGRAM}, arguments);
}

outcome run_after(const std::string& first, const args& arguments, launch how = {}) {
  how.program = "/bin/bash";
  return run(after(first, arguments), how);
}

outcome run_limited(const std::string& limits, const args& arguments) {
  return run_after("ulimit " + limits, arguments);
}

// -- address space ------------------------------------------------------------------------

struct space_case {
  const char* limit;  ///< for bash's ulimit, in KiB
  const char* threads;
  bool fits;  ///< true: one process surely fits; several, or false: it depends on this machine
};

void PrintTo(const space_case& one, std::ostream* out) { *out << one.limit << ", " << one.threads << " threads"; }

class LittleAddressSpace : public testing::TestWithParam<space_case> {};

TEST_P(LittleAddressSpace, LetsARunGoOnOrRefusesIt) {
  const auto& [limit, threads, fits] = GetParam();
  for (const args& how : {args{}, args{"--processes"}}) {
    const outcome ended =
        run_limited(limit, with(with({"train", "--threads", threads, "--trainers", threads}, multiplies), how));
    ASSERT_TRUE(ended.in_time) << ended.err;
    EXPECT_EQ(ended.signal, 0) << ended.err;
    if (ended.exit_code == 0) continue;
    EXPECT_FALSE(fits && how.empty()) << ended.err;
    const std::string line = expect_error(ended, 2);
    EXPECT_TRUE(std::regex_search(line, std::regex("--threads|use less"))) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, LittleAddressSpace,
                         testing::Values(space_case{"-v 250000", "2", false}, space_case{"-v 400000", "2", false},
                                         space_case{"-v 600000", "2", false}, space_case{"-v 1200000", "2", true},
                                         space_case{"-v 1200000", "16", false}, space_case{"-v 2500000", "16", true},
                                         space_case{"-d 300000", "2", false}));

/// The leader computes no products, so it reserves no buffers, which would leave no room for its roles.
TEST(ProcessesInLittleAddressSpace, RunWhereOneProcessDoes) {
  const args job = with({"train", "--json", "--threads", "16"}, multiplies);
  const std::string expected = digest_of(run(job));
  EXPECT_EQ(digest_of(run_limited("-v 2500000", job)), expected);
  EXPECT_EQ(digest_of(run_limited("-v 2500000", with(job, {"--processes"}))), expected);
}

/// Links' shared memory leaves room for tables and stacks: no limit fails between two that work.
TEST(ProcessesInLittleAddressSpace, LeaveRoomBesideTheirLinks) {
  for (const char* limit : {"-v 1290000", "-v 1300000", "-v 1310000", "-v 1320000"}) {
    const outcome ended = run_limited(limit, with({"train", "--json", "--threads", "1", "--processes"}, multiplies));
    EXPECT_EQ(ended.exit_code, 0) << limit << ": " << ended.err;
  }
}

TEST(MemberInLittleAddressSpace, IsRefusedIfItsProductsFindNoRoom) {
  gathered_run several(with({"--servers", "1", "--trainers", "1"}, multiplies));
  launch how = with_token();
  how.program = "/bin/bash";
  const outcome member = run(after("ulimit -v 250000", {"join", several.where(), "--as", "trainer"}), how);
  ASSERT_TRUE(member.in_time) << member.err;
  EXPECT_FINDS(expect_error(member, 2), "128 MiB of address space for each thread") << member.err;
  several.join_all(1, 1);
  several.finish();
}

// -- descriptors ----------------------------------------------------------------------------

class TooFewDescriptors : public testing::TestWithParam<int> {};

TEST_P(TooFewDescriptors, AreSaidOrEnough) {
  for (const args& how : {args{}, args{"--processes", "--restarts", "0"}, args{"--processes", "--restarts", "1"}}) {
    const outcome ended = run_limited(fmt::format("-n {}", GetParam()), with(with({"train"}, how), short_job));
    ASSERT_TRUE(ended.in_time) << ended.err;
    EXPECT_EQ(ended.signal, 0) << ended.err;
    if (ended.exit_code == 0) continue;
    EXPECT_TRUE(ended.exit_code == 1 || ended.exit_code == 2) << ended.exit_code;
    const std::string line = line_with(ended.err, "troupe: error: ");
    EXPECT_FINDS(line, "Too many open files") << ended.err;
    EXPECT_FINDS(line, "ulimit -n") << ended.err;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, TooFewDescriptors, testing::Values(6, 8, 12, 16, 18, 20, 22, 24, 28, 32, 48, 64));

// -- threads ----------------------------------------------------------------------------------

TEST(TooFewThreads, AreSaidWithTheOption) {
  const outcome ended = run_limited("-s 1073741824", with({"train", "--threads", "300"}, short_job));
  EXPECT_TRUE(std::regex_search(expect_error(ended, 2),
                                std::regex("--threads 300: the limits of this process \\(ulimit -v, ulimit -u, "
                                           "pids.max\\) let it start \\d+ threads, 308 are needed; raise them, or use "
                                           "fewer --threads$")))
      << ended.err;
}

// -- /proc and /dev -----------------------------------------------------------------------------

class MissingFiles : public testing::Test {
 protected:
  /// Runs the program in its own mount namespace, after `umount` has hidden something.
  static outcome run_without(const std::string& umount, const args& arguments) {
    launch how;
    how.program = "/usr/bin/unshare";
    return run(with({"-m", "--propagation", "private", "/bin/bash"}, after(umount, arguments)), how);
  }

  void SetUp() override {
    launch how;
    how.program = "/usr/bin/unshare";
    const outcome tried =
        run({"-m", "--propagation", "private", "/bin/bash", "-c", "umount -l /proc && mount -t tmpfs none /dev"}, how);
    if (tried.exit_code != 0) GTEST_SKIP() << "needs CAP_SYS_ADMIN, for mounts of its own: " << tried.err;
  }
};

TEST_F(MissingFiles, OfProcKeepNoRunFromItsEnd) {
  const std::string expected = digest_of(run(with({"train", "--json"}, short_job)));
  for (const args& how : {args{"--processes", "--restarts", "0"}, args{"--processes", "--restarts", "1"}})
    EXPECT_EQ(digest_of(run_without("umount -l /proc", with(with({"train", "--json"}, how), short_job))), expected);
  EXPECT_EQ(digest_of(run_without("umount -l /proc && ulimit -v 4000000", with({"train", "--json"}, short_job))),
            expected);
}

TEST_F(MissingFiles, OfDevAreNamed) {
  for (const args& how : {args{"--processes", "--restarts", "0"}, args{"--processes", "--restarts", "1"}}) {
    const outcome ended = run_without("mount -t tmpfs none /dev", with(with({"train"}, how), short_job));
    ASSERT_TRUE(ended.in_time) << ended.err;
    const std::string line = line_with(ended.err, "troupe: error: ");
    EXPECT_FINDS(line, "server 0 could not be started: /dev/null") << ended.err;
  }
}

}  // namespace
}  // namespace troupe::end_to_end::limits_test

#endif
