// Files as the page sees them while they are written, and once their writer is gone.

#include "page/source.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "page/live_page.hpp"
#include "tests/page/raw_client.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "tests/value_of.hpp"
#include "trace/record/recorder.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::page::source_test {
namespace {

/// Reads again whenever asked.
constexpr recorded::pace eager{std::chrono::milliseconds(0), 0};

/// A process that records messages to one actor.
class writer {
 public:
  explicit writer(const std::filesystem::path& folder) {
    trace::recorder::options how;
    how.folder = folder;
    how.types = {{200, "lookup"}};
    auto made = trace::recorder::start(std::move(how));
    if (!made) throw std::runtime_error(made.error().message);
    recorder_ = std::move(*made);
    recorder_->set_run(77, 0, 0);
    board_ = recorder_->add_actor(2, 0, "server 0");
  }

  void handle(std::uint64_t sequence) {
    trace::record made;
    made.begin = made.sent = trace::ticks_now();
    made.id = std::uint64_t{3} << 48 | sequence;
    made.busy48_type16 = trace::record::pack(1000, 200);
    made.queued48_actor16 = trace::record::pack(0, 2);
    made.step48_aux16 = trace::record::pack(1, 0);
    made.bytes32_kind8_flags8_stamp16 = trace::pack_kind(10, trace::kind::handled, 0);
    recorder_->append(made);
    board_->handled.fetch_add(1);
  }

  std::string copy() const { return recorder_->copy(); }

  void finish(bool clean) {
    recorder_->finish(clean);
    recorder_.reset();
  }

 private:
  std::unique_ptr<trace::recorder> recorder_;
  trace::board_entry* board_ = nullptr;
};

TEST(Recorded, ReadsAgainOnlyWhatHasChanged) {
  const trace::temporary_folder folder;
  writer run(folder.path());
  run.handle(1);
  recorded source({{folder.path()}, 0}, eager);
  const reading first = source.latest();
  ASSERT_TRUE(first.what) << first.problem;
  EXPECT_EQ(first.generation, 1u);
  EXPECT_EQ(first.what->events.size(), 1u);
  EXPECT_EQ(first.what->run, 77u);
  EXPECT_TRUE(first.live) << "this process is there";
  const trace::nanoseconds first_end = first.what->end();

  const reading same = source.latest();
  EXPECT_EQ(same.what, first.what) << "not read again";
  EXPECT_EQ(same.generation, 1u);
  EXPECT_GT(same.what->end(), first_end) << "but the time continues";

  run.handle(2);
  const reading more = source.latest();
  EXPECT_EQ(more.generation, 2u);
  EXPECT_EQ(more.what->events.size(), 2u);
}

TEST(Recorded, LooksNoMoreOftenThanItMay) {
  const trace::temporary_folder folder;
  writer run(folder.path());
  run.handle(1);
  recorded source({{folder.path()}, 0}, {std::chrono::hours(1), 0});
  EXPECT_EQ(source.latest().generation, 1u);
  run.handle(2);
  EXPECT_EQ(source.latest().generation, 1u);
}

TEST(Recorded, KnowsThatARunHasFailed) {
  const trace::temporary_folder folder;
  writer run(folder.path());
  run.handle(1);
  recorded source({{folder.path()}, 0}, eager);
  EXPECT_TRUE(source.latest().live);
  run.finish(false);
  const reading after = source.latest();
  EXPECT_FALSE(after.live);
  EXPECT_EQ(after.what->processes.front().end, trace::ending::failed);
}

TEST(Recorded, KeepsWhatItHadWhenTheFilesAreGone) {
  const trace::temporary_folder folder;
  writer run(folder.path());
  run.handle(1);
  recorded source({{folder.path()}, 0}, eager);
  EXPECT_EQ(source.latest().problem, "");
  run.finish(true);  // a clean end leaves no file
  const reading after = source.latest();
  ASSERT_TRUE(after.what);
  EXPECT_EQ(after.what->events.size(), 1u);
  EXPECT_NE(after.problem, "");
}

TEST(Recorded, KnowsThatAProcessWasKilled) {
  const trace::temporary_folder folder;
  const pid_t child = fork();
  if (child == 0) {
    writer run(folder.path());
    run.handle(1);
    raise(SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  recorded source({{folder.path()}, 0}, eager);
  const reading after = source.latest();
  ASSERT_TRUE(after.what) << after.problem;
  EXPECT_FALSE(after.live);
  EXPECT_EQ(after.what->processes.front().end, trace::ending::none);
  EXPECT_EQ(after.what->events.size(), 1u);
}

TEST(Recorded, TakesNoMoreMemoryThanItMayHoweverOftenItReads) {
  const trace::temporary_folder folder;
  writer run(folder.path());
  run.handle(1);
  trace::sources from{{folder.path()}};
  trace::memory_budget all;
  const auto files = trace::find_trace_files(from);
  ASSERT_EQ(files->size(), 1u);
  ASSERT_TRUE(trace::read_trace_file(files->front(), all));
  from.memory_bytes_max = std::filesystem::file_size(files->front()) + all.taken();
  recorded source(from, eager);
  for (std::uint64_t i = 2; i < 10; ++i) {
    EXPECT_EQ(source.latest().problem, "");
    run.handle(i);
  }
  from.memory_bytes_max = 1 << 20;
  recorded too_little(from, eager);
  EXPECT_NE(too_little.latest().problem.find("the limit is 1.0 MiB"), std::string::npos) << too_little.latest().problem;
}

// A copy like a diagnosis makes, of a process that continues.
TEST(Recorded, KnowsThatACopyDoesNotGoOn) {
  const trace::temporary_folder folder;
  writer run(folder.path() / "run");
  run.handle(1);
  std::filesystem::create_directory(folder.path() / "copy");
  std::ofstream(folder.path() / "copy" / "a.ring", std::ios::binary) << run.copy();
  recorded source({{folder.path() / "copy"}, 0}, eager);
  const reading first = source.latest();
  ASSERT_TRUE(first.what) << first.problem;
  EXPECT_EQ(first.what->events.size(), 1u);
  EXPECT_EQ(first.what->processes.front().alive, true) << "it was, then";
  EXPECT_FALSE(first.live);
  const trace::nanoseconds first_end = first.what->end();
  EXPECT_EQ(source.latest().what->end(), first_end) << "no time goes by in it";
  EXPECT_TRUE(recorded({{folder.path() / "run"}, 0}, eager).latest().live);
}

TEST(Recorded, SaysWhatItCannotRead) {
  const trace::temporary_folder folder;
  std::ofstream(folder.path() / "a.ring") << "no trace";
  recorded source({{folder.path()}, 0}, eager);
  const reading nothing = source.latest();
  EXPECT_FALSE(nothing.what);
  EXPECT_NE(nothing.problem, "");
  writer run(folder.path());
  run.handle(1);
  std::filesystem::remove(folder.path() / "a.ring");
  EXPECT_TRUE(source.latest().what) << "it looks again";
}

TEST(LivePage, ServesAFolderUntilItIsStopped) {
  const trace::temporary_folder folder;
  writer run(folder.path());
  run.handle(1);
  auto page = value_of(live_page::start({{{folder.path()}, 0}, "127.0.0.1", 0, "secret-token"}));
  const std::string url = page->url();
  ASSERT_TRUE(url.starts_with("http://127.0.0.1:") && url.ends_with("/?token=secret-token")) << url;
  const auto port = static_cast<std::uint16_t>(std::stoul(url.substr(17)));
  raw_client client(port);
  client.send("GET /api/run HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-token\r\n\r\n");
  EXPECT_NE(client.read_answer().find("\"records\":1,"), std::string::npos);
  page.reset();
  EXPECT_FALSE(raw_client(port).connected());
}

TEST(LivePage, RefusesATokenThatIsNone) {
  EXPECT_EQ(live_page::start({{}, "127.0.0.1", 0, "x; y"}).error().message,
            "a token is 8 to 128 letters, digits, '-' and '_'");
}

TEST(LivePage, KnowsLoopback) {
  for (const char* near : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) EXPECT_TRUE(is_loopback(near)) << near;
  for (const char* far : {"0.0.0.0", "::", "10.0.0.1", "localhost.example"}) EXPECT_FALSE(is_loopback(far)) << far;
}

}  // namespace
}  // namespace troupe::page::source_test
