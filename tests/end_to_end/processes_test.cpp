// Goal: `--processes` changes only where a run happens: results, checkpoints, errors and signals are those of one
// process. Method: the same jobs both ways, and a look at the processes while they run.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "tests/end_to_end/several.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::processes_test {
namespace {

args train(const args& options) { return with({"train", "--json", "--seed", "7"}, options); }
args train_in_processes(const args& options) { return train(with({"--processes"}, options)); }

struct job_case {
  const char* name;
  args options;
};

void PrintTo(const job_case& one, std::ostream* out) { *out << one.name; }

const std::vector<job_case> jobs = {
    {"Tutorial", {"--data", "tutorial", "--steps", "25"}},
    {"Adult", {"--batch-size", "64", "--steps", "12"}},
    {"Synthetic", {"--data", "synthetic", "--rows", "500", "--tables", "3", "--steps", "12", "--batch-size", "32"}},
};

class ProcessesOf : public testing::TestWithParam<job_case> {};

TEST_P(ProcessesOf, EndWithTheDigestOfOneProcessHoweverManyTheyAre) {
  for (const std::string trainers : {"1", "2", "4"}) {
    const std::string whole = digest_of(run(train(with(GetParam().options, {"--trainers", trainers}))));
    for (const std::string servers : {"1", "2", "3"}) {
      const args options = with(GetParam().options, {"--trainers", trainers, "--servers", servers});
      EXPECT_EQ(digest_of(run(train_in_processes(options))), whole) << trainers << " trainers, " << servers;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllJobs, ProcessesOf, testing::ValuesIn(jobs), [](const auto& one) { return one.param.name; });

const args two_each = {"--servers", "2", "--trainers", "2"};

TEST(Processes, AccumulateClipAndSendInHalfTheBitsAsOneProcessDoes) {
  const args options =
      with(with(jobs.back().options, two_each),
           {"--accumulate", "2", "--clip-norm", "0.1", "--wire-dtype", "bf16", "--sparse-optimizer", "adagrad"});
  EXPECT_EQ(digest_of(run(train_in_processes(options))), digest_of(run(train(options))));
}

TEST(Processes, WithEncryptedLinksEndWithTheDigestOfOneProcess) {
  const args options = with({"--data", "tutorial", "--steps", "25"}, two_each);
  EXPECT_EQ(digest_of(run(train_in_processes(with(options, {"--tls"})))), digest_of(run(train(options))));
}

TEST(Bench, MeasuresLookupsOverPlainAndEncryptedLinks) {
  for (const args& how : {args{}, args{"--tls"}}) {
    const outcome measured = run(with({"bench", "lookup", "--json"}, how));
    EXPECT_EQ(measured.exit_code, 0) << measured.err;
    const auto lines = json_lines(measured.out);
    ASSERT_EQ(lines.size(), 3U) << measured.out;
    for (const auto& line : lines) EXPECT_GT(line.at("us").to_number<double>(), 0);
  }
}

// With five rows, two of three trainers have no batch in every other step, and then wait for no rows.
TEST(Processes, MayBeAheadOfTheOthersWithoutABatch) {
  model::checkpoint_folder folder;
  std::string rows = "c,y\n";
  for (int i = 0; i < 5; ++i) rows += std::to_string(i % 2) + "," + std::to_string(i % 2) + "\n";
  model::set_content(folder / "rows.csv", rows);
  const args few = {"--data",       "csv:" + (folder / "rows.csv"),
                    "--columns",    R"([{"name":"c","kind":"categorical","rows":2},{"name":"y","kind":"label"}])",
                    "--trainers",   "3",
                    "--batch-size", "1",
                    "--dim",        "4",
                    "--epochs",     "20"};
  for (const args& agreed : {args{"--clip-norm", "1"}, args{"--nan", "skip"}}) {
    const outcome whole = run(train(with(few, agreed)));
    EXPECT_EQ(whole.exit_code, 0) << whole.err;
    EXPECT_EQ(digest_of(run(train_in_processes(with(few, agreed)))), digest_of(whole));
  }
}

TEST(Processes, RunStaleModesToTheEnd) {
  for (const std::string mode : {"ssp:2", "async"}) {
    const outcome done = run(train_in_processes(with(with(jobs.back().options, two_each), {"--consistency", mode})));
    EXPECT_FALSE(digest_of(done).empty());
    EXPECT_EQ(last_event(done, "done").at("steps").to_number<int>(), 12);
  }
}

TEST(Processes, ReplayTheReferenceRuns) {
  for (const std::string name : {"tutorial_sum", "tutorial_mean", "ctr_adagrad", "mlp_mse"}) {
    const outcome done = run({"parity", reference_run(name + ".safetensors"), "--processes", "--json"});
    EXPECT_EQ(done.exit_code, 0) << name << ": " << done.err << done.out;
  }
}

TEST(Processes, SaveWhatOneProcessGoesOnFromAndTheOtherWayRound) {
  const auto adult = [](const std::string& steps, const args& more) {
    return with({"--batch-size", "64", "--eval-every", "0", "--trainers", "2", "--steps", steps}, more);
  };
  const std::string whole = digest_of(run(train(adult("60", {}))));
  const model::checkpoint_folder folder;
  digest_of(run(train_in_processes(adult("20", {"--servers", "2", "--save", folder.path()}))));
  const args resumed = {"--save", folder.path(), "--resume", folder.path()};
  digest_of(run(train(adult("40", with(resumed, {"--servers", "1"})))));
  EXPECT_EQ(digest_of(run(train_in_processes(adult("60", with(resumed, {"--servers", "3"}))))), whole);
}

TEST(Processes, ReportTheirOwnMemoryAndNotThatOfWhatAShellRanBefore) {
  for (const args& options :
       {train({"--data", "tutorial", "--steps", "10"}), train_in_processes({"--data", "tutorial", "--steps", "10"})}) {
    const auto peak_of = [](const outcome& from) {
      const auto done = last_event(from, "done");
      return done.empty() ? 0.0 : done.at("peak_rss_mib").to_number<double>();
    };
    const double alone = peak_of(run(options));
    EXPECT_GT(alone, 1);
    // The shell has waited for a program that used 256 MiB, and becomes `troupe`.
    const args line = {"-c", "dd if=/dev/zero of=/dev/null bs=256M count=1 2>/dev/null && exec \"$@\"", "sh",
                       TROUPE_PROGRAM};
    launch shell;
    shell.program = "/bin/sh";
    EXPECT_LT(peak_of(run(with(line, options), shell)), alone + 128);
  }
}

TEST(Processes, AFullDiskDoesNotEndTheRunButShowsInTheExitCode) {
  const args options = with(jobs.front().options, two_each);
  const std::string whole = digest_of(run(train(options)));
  const model::checkpoint_folder folder;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 256;
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const outcome full = run(train_in_processes(with(options, {"--save", folder.path(), "--checkpoint-every", "10"})));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);
  EXPECT_EQ(full.exit_code, 1) << full.err;
  EXPECT_FINDS(full.err, "troupe: error: no checkpoint of step 10: ");
  EXPECT_EQ(std::string(last_event(full, "done").at("weights_digest").as_string()), whole);
  EXPECT_EQ(last_event(full, "done").at("attempts").to_number<int>(), 1);
}

TEST(Processes, ASecondRunThatSavesInTheSameFolderNamesTheFirst) {
  const model::checkpoint_folder folder;
  const args options = with(with(endless, two_each), {"--save", folder.path()});
  program first(train_in_processes(options));
  ASSERT_TRUE(first.wait_for_output(trains));
  const outcome second = run(train_in_processes(options));
  EXPECT_EQ(second.exit_code, 2) << second.err;
  EXPECT_FINDS(second.err, "pid " + std::to_string(first.process()));
  first.send(SIGTERM);
  EXPECT_EQ(first.finish().exit_code, 0);
}

// What every user can read about a process must not admit them to the run.
TEST(Processes, ShowRoleAndRankAndNeitherTokenNorAddress) {
  program running(train_in_processes(with(endless, two_each)));
  ASSERT_TRUE(running.wait_for_output(trains));
  for (const std::string role : {"server", "trainer"}) {
    for (const std::string rank : {"0", "1"}) {
      const pid_t process = process_of(running, role + " " + rank);
      EXPECT_EQ(proc_words(process, "cmdline"), (args{"troupe", "train", "--role", role, "--rank", rank}));
    }
  }
  running.send(SIGTERM);
  EXPECT_EQ(running.finish().exit_code, 0);
}

TEST(Processes, TakePartOnlyWhereTheyWereStarted) {
  const std::string line = expect_error(run({"train", "--role", "trainer", "--rank", "0"}), 2);
  EXPECT_FINDS(line, "use 'troupe join'");
}

/// Limits the size of files that the test's child processes write, for its lifetime.
class file_size_limit {
 public:
  explicit file_size_limit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~file_size_limit() { setrlimit(RLIMIT_FSIZE, &before_); }
  file_size_limit(const file_size_limit&) = delete;
  file_size_limit& operator=(const file_size_limit&) = delete;

 private:
  rlimit before_{};
};

TEST(Processes, ShareNoMemoryWhereFilesMayNotBeThatLargeAndTrainAllTheSame) {
  const args job = {"--data", "synthetic", "--rows", "500", "--dim", "64", "--steps", "12", "--batch-size", "128"};
  const std::string expected = digest_of(run(train(job)));
  const file_size_limit small(1'000'000);
  EXPECT_EQ(digest_of(run(train_in_processes(job))), expected);
}

TEST(Processes, SayOnceWhyTheRunFailed) {
  const outcome ended =
      run(train_in_processes({"--data", "tutorial", "--dense-lr", "1e6", "--sparse-lr", "1e6", "--epochs", "50"}));
  EXPECT_EQ(ended.exit_code, 1);
  const std::string args = "try a smaller learning rate (--dense-lr, --sparse-lr)";
  EXPECT_FINDS(line_with(ended.err, "troupe: error: "), args) << ended.err;
  EXPECT_EQ(ended.err.find(args), ended.err.rfind(args)) << ended.err;
}

TEST(Processes, SayWhichFileIsLargerThanFilesMayBe) {
  const model::checkpoint_folder folder;
  const file_size_limit small(100'000);
  const args job = {"--data", "synthetic", "--rows", "20000", "--steps", "12", "--save", folder.path()};
  const outcome ended = run(train_in_processes(job));
  EXPECT_EQ(ended.exit_code, 1);
  const std::string line = line_with(ended.err, "no checkpoint of step 12: " + folder.path());
  EXPECT_FINDS(line, "File too large");
}

// Users can copy the environment and command line of these processes: so an option must not be ignored.
TEST(Processes, TakeNoOptionsButTheirRoleAndRank) {
  launch how = with_token();
  how.environment.emplace_back("TROUPE_MASTER", "127.0.0.1:1");
  how.environment.emplace_back("TROUPE_DEAD_AFTER_MS", "5000");
  how.environment.emplace_back("TROUPE_REQUEST_TIMEOUT_MS", "5000");
  how.environment.emplace_back("TROUPE_THREADS", "1");
  const args role = {"train", "--role", "trainer", "--rank", "0"};
  for (const args& more : {args{"--seed", "7"}, args{"--processes"}, args{"--token-file", "token"}, args{"--quiet"},
                           args{"--save", "runs"}}) {
    const std::string line = expect_error(run(with(role, more), how), 2);
    EXPECT_FINDS(line, more.front() + ": does not go with --role");
  }
  EXPECT_NE(expect_error(run(with(role, {"job.toml"}), how), 2).find("JOB.toml: does not go with --role"),
            std::string::npos);
  EXPECT_FINDS(expect_error(run({"train", "--rank", "0"}), 2), "--rank 0: goes with --role only");
}

class FirstSignalToProcesses : public testing::TestWithParam<int> {};

TEST_P(FirstSignalToProcesses, EndsTheStepSavesItAndLeavesNobody) {
  const model::checkpoint_folder folder;
  program running(train_in_processes(with(with(endless, two_each), {"--save", folder.path()})));
  ASSERT_TRUE(running.wait_for_output(trains));
  running.send(GetParam());
  const outcome stopped = running.finish();  // waits for all processes
  ASSERT_TRUE(stopped.in_time);
  EXPECT_EQ(stopped.exit_code, 0) << stopped.err;
  EXPECT_EQ(stopped.err.find("error"), std::string::npos) << stopped.err;
  const auto done = last_event(stopped, "done");
  EXPECT_EQ(done.at("stopped"), true);
  const auto saved = json_lines(run({"checkpoint", "list", folder.path(), "--json"}).out);
  EXPECT_EQ(saved.front().at("step"), done.at("steps"));
}

INSTANTIATE_TEST_SUITE_P(Both, FirstSignalToProcesses, testing::Values(SIGINT, SIGTERM));

TEST(SecondSignalToProcesses, EndsAllOfThemAtOnce) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "skipped: the thread sanitizer delivers signals late, when the first one may have ended the run";
#endif
  program running(train_in_processes(with(endless, two_each)));
  ASSERT_TRUE(running.wait_for_output(trains));
  running.send_together({SIGINT, SIGTERM});
  const outcome result = running.finish();
  ASSERT_TRUE(result.in_time);
  EXPECT_EQ(result.exit_code, 130) << result.err;
}

// A terminal's Ctrl-C signals its foreground process group; the processes that --processes starts are not in it.
TEST(SignalsToAProcess, OfThoseThatProcessesStartsStopTheWholeRun) {
  program running(train_in_processes(with(endless, two_each)));
  const pid_t one = process_of(running, "trainer 1");
  ASSERT_TRUE(running.wait_for_output(trains));
  ASSERT_EQ(kill(one, SIGTERM), 0);
  const outcome stopped = running.finish();
  EXPECT_EQ(stopped.exit_code, 0) << stopped.err;
  EXPECT_EQ(last_event(stopped, "done").at("stopped"), true);
}

}  // namespace
}  // namespace troupe::end_to_end::processes_test
