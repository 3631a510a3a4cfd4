// The ring and the log: written records can be read, however the writer ends.

#include "trace/record/ring.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include "temporary_folder.hpp"
#include "tests/read_file.hpp"
#include "tests/value_of.hpp"
#include "trace/record/recorder.hpp"
#include "trace/record/recording.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::trace::ring_test {
namespace {

record made_record(std::uint64_t id) {
  record made;
  made.begin = ticks_now();
  made.id = id;
  made.bytes32_kind8_flags8_stamp16 = pack_kind(id, kind::handled, flag::request);
  return made;
}

/// Returns the ids of all records, in the file's order.
std::vector<std::uint64_t> ids_in(const trace_file& file) {
  std::vector<std::uint64_t> ids;
  for (const auto& [number, chunk] : file.chunks)
    for (const record& one : chunk.records) ids.push_back(one.id);
  return ids;
}

TEST(Record, PacksWhatFitsAndSaturatesWhatDoesNot) {
  record made;
  made.busy48_type16 = record::pack(record::max48 + 5, 417);
  made.queued48_actor16 = record::pack(3, 65'535);
  made.step48_aux16 = record::pack(123'456'789'012, 7);
  made.bytes32_kind8_flags8_stamp16 = pack_kind(std::uint64_t{1} << 40, kind::range, 0xff);
  EXPECT_EQ(made.busy(), record::max48);
  EXPECT_EQ(made.type(), 417);
  EXPECT_EQ(made.queued(), 3U);
  EXPECT_EQ(made.actor(), 65'535);
  EXPECT_EQ(made.step(), 123'456'789'012U);
  EXPECT_EQ(made.aux(), 7);
  EXPECT_EQ(made.bytes(), UINT32_MAX);
  EXPECT_EQ(made.what(), kind::range);
  EXPECT_EQ(made.flags(), 0xff);
  EXPECT_EQ(made.stamp(), 0);
}

TEST(Ring, GivesBackWhatWasAppended) {
  const temporary_folder folder;
  auto made = value_of(ring::create({.file = folder.path() / "a.ring"}));
  made->set_metadata("{}");
  for (std::uint64_t i = 1; i <= 1000; ++i) made->append(made_record(i));
  const auto read = value_of(read_trace_file(folder.path() / "a.ring"));
  const auto ids = ids_in(read);
  ASSERT_EQ(ids.size(), 1000U);
  for (std::uint64_t i = 1; i <= 1000; ++i) EXPECT_EQ(ids[i - 1], i);
  EXPECT_TRUE(read.warnings.empty());
  EXPECT_EQ(read.pid, static_cast<std::uint32_t>(::getpid()));
}

TEST(Ring, KeepsTheLastRecordsAndSaysHowManyItHad) {
  const temporary_folder folder;
  auto made = value_of(ring::create({.file = folder.path() / "a.ring", .bytes = 16 * chunk_bytes}));
  constexpr std::uint64_t total = 100 * records_per_chunk;
  for (std::uint64_t i = 1; i <= total; ++i) made->append(made_record(i));
  const auto read = value_of(read_trace_file(folder.path() / "a.ring"));
  EXPECT_EQ(read.next_chunk, 100U);
  const auto ids = ids_in(read);
  ASSERT_EQ(ids.size(), 16 * records_per_chunk);
  EXPECT_EQ(ids.front(), 84 * records_per_chunk + 1);
  EXPECT_EQ(ids.back(), total);
}

#ifdef MADV_POPULATE_WRITE
/// Returns the KiB of a mapped file that are in this process's page tables.
long resident_kib(const std::filesystem::path& file) {
  std::ifstream maps("/proc/self/smaps");
  bool is_it = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" /") != line.npos) is_it = line.ends_with(file.string());
    if (is_it && line.starts_with("Rss:")) return std::stol(line.substr(4));
  }
  return 0;
}

TEST(Ring, ItsPagesAreThereBeforeTheFirstRecord) {
  if (::madvise(nullptr, 0, MADV_POPULATE_WRITE) != 0) GTEST_SKIP() << "needs Linux 5.14";
  const temporary_folder folder;
  constexpr long pages = 1024;
  auto made = ring::create({.file = folder.path() / "a.ring", .bytes = pages * chunk_bytes});
  ASSERT_TRUE(made) << made.error().message;
  constexpr long kib = pages * chunk_bytes / 1024;
  EXPECT_GT(resident_kib(folder.path() / "a.ring"), kib * 3 / 4);  // the system may have evicted some pages
}
#endif

TEST(Ring, SeveralThreadsLoseNothing) {
  const temporary_folder folder;
  auto made = ring::create({.file = folder.path() / "a.ring"});
  ASSERT_TRUE(made) << made.error().message;
  constexpr std::uint64_t each = 20'000;
  constexpr std::uint64_t threads = 4;
  {
    std::vector<std::jthread> all;
    for (std::uint64_t t = 0; t < threads; ++t)
      all.emplace_back([&made, t] {
        for (std::uint64_t i = 0; i < each; ++i) (*made)->append(made_record(t * each + i + 1));
      });
  }
  const auto read = value_of(read_trace_file(folder.path() / "a.ring"));
  const auto ids = ids_in(read);
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), each * threads);
  EXPECT_EQ(ids.size(), each * threads);
}

/// Chunks belong to threads, so a slow thread's chunk is overwritten first, including its newer records.
TEST(Recording, KnowsFromWhenOnNothingIsMissing) {
  const temporary_folder folder;
  const auto made = value_of(ring::create({.file = folder.path() / "a.ring", .bytes = 16 * chunk_bytes}));
  made->set_metadata("{}");
  made->head().run.store(1);
  std::vector<std::uint64_t> begins = {0};  // by id
  std::atomic<std::uint64_t> turn = 0;      // odd: the slow thread's turn
  constexpr std::uint64_t rounds = 60;
  std::jthread slow([&] {
    for (std::uint64_t i = 0; i < rounds; ++i) {
      while (turn.load() != 2 * i + 1) turn.wait(2 * i);
      begins.push_back(ticks_now());
      made->append(made_record(begins.size() - 1));
      turn.store(2 * i + 2);
      turn.notify_all();
    }
  });
  for (std::uint64_t i = 0; i < rounds; ++i) {
    for (std::uint64_t k = 0; k < records_per_chunk; ++k) {
      begins.push_back(ticks_now());
      made->append(made_record(begins.size() - 1));
    }
    turn.store(2 * i + 1);
    turn.notify_all();
    while (turn.load() != 2 * i + 2) turn.wait(2 * i + 1);
  }
  const auto read = value_of(read_recording({{folder.path()}, 0}));
  const process_info& process = read.processes.at(0);
  EXPECT_GT(process.overwritten, 0U);
  std::set<std::uint64_t> there;
  std::uint64_t surely = 0;
  for (const event& one : read.events) {
    there.insert(one.id);
    surely += one.begin >= process.complete_from ? 1 : 0;
  }
  EXPECT_GT(surely, 5 * records_per_chunk) << "half of the ring is certain";
  // The records certain to be complete are the last ones, without a gap.
  const std::uint64_t first = begins.size() - surely;
  for (std::uint64_t id = first; id < begins.size(); ++id) EXPECT_TRUE(there.contains(id)) << id;
}

TEST(Recording, OldCopiesTakeNothingFromTheRing) {
  const temporary_folder folder;
  const auto made = value_of(ring::create({.file = folder.path() / "a.ring"}));
  made->set_metadata("{}");
  made->head().run.store(1);
  for (std::uint64_t i = 1; i <= 100; ++i) made->append(made_record(i));
  board_entry* const actor = made->add_actor(3, 0, "trainer 0");
  actor->handled.store(100);
  // Its name sorts after the ring's.
  const std::string copy = made->copy();
  std::ofstream(folder.path() / "copy.ring", std::ios::binary) << copy;
  for (std::uint64_t i = 101; i <= 110; ++i) made->append(made_record(i));
  actor->handled.store(110);
  for (const bool ring_goes : {false, true}) {
    if (ring_goes) std::filesystem::remove(folder.path() / "a.ring");
    const auto read = value_of(read_recording({{folder.path()}, 0}));
    EXPECT_EQ(read.events.size(), ring_goes ? 100U : 110U);
    EXPECT_EQ(read.actors.at(0).handled, ring_goes ? 100U : 110U);
  }
}

TEST(Recording, NamesFromFilesSteerNoTerminal) {
  const temporary_folder folder;
  const auto made = value_of(ring::create({.file = folder.path() / "a.ring"}));
  made->set_metadata(R"({"host":"a\nb\u001b[2J\u009b\u202e"})");
  made->head().run.store(1);
  made->add_actor(3, 0, "trainer\n0");
  const auto read = value_of(read_recording({{folder.path()}, 0}));
  EXPECT_EQ(read.processes.at(0).host, "a\\x0ab\\x1b[2J\\u009b\\u202e");
  EXPECT_EQ(read.actors.at(0).name, "trainer\\x0a0");
}

TEST(Ring, SurvivesSigkill) {
  const temporary_folder folder;
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto made = ring::create({.file = folder.path() / "a.ring"});
    board_entry* const entry = (*made)->add_actor(2, 0, "server 0");
    entry->message.store(77);
    for (std::uint64_t i = 1; i <= 500; ++i) (*made)->append(made_record(i));
    (void)!::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ::close(ready[0]);
  ::close(ready[1]);
  const auto read = value_of(read_trace_file(folder.path() / "a.ring"));
  EXPECT_EQ(ids_in(read).size(), 500U);
  EXPECT_EQ(read.pid, static_cast<std::uint32_t>(child));
  EXPECT_EQ(read.end, ending::none);
  ASSERT_EQ(read.board.size(), 1U);
  EXPECT_EQ(read.board[0].name, "server 0");
  EXPECT_EQ(read.board[0].message, 77U);
}

TEST(Ring, WhereThereIsNoRoomItSaysSo) {
  const auto made = ring::create({.file = "/dev/full/a.ring"});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("/dev/full/a.ring"), std::string::npos);
}

TEST(Ring, ActorsBeyondTheBoardAreCounted) {
  const temporary_folder folder;
  auto made = value_of(ring::create({.file = folder.path() / "a.ring", .board_entries = 2}));
  EXPECT_NE(made->add_actor(2, 0, "server 0"), nullptr);
  EXPECT_NE(made->add_actor(3, 0, "a name that is longer than there is room for"), nullptr);
  EXPECT_EQ(made->add_actor(4, 0, "server 2"), nullptr);
  EXPECT_EQ(made->head().board_full.load(), 1U);
  const auto read = value_of(read_trace_file(folder.path() / "a.ring"));
  ASSERT_EQ(read.board.size(), 2U);
  EXPECT_EQ(read.board[1].name, "a name that is longer t");
}

recorder::options full_in(const std::filesystem::path& folder) {
  recorder::options how;
  how.what = mode::full;
  how.folder = folder;
  how.ring_bytes = 64 * chunk_bytes;
  how.types = {{200, "lookup"}, {201, "rows"}};
  return how;
}

/// Returns the only file with this extension in a folder.
std::filesystem::path only_file(const std::filesystem::path& folder, const std::string& ending) {
  std::filesystem::path found;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ending) {
      EXPECT_TRUE(found.empty());
      found = entry.path();
    }
  return found;
}

TEST(Log, KeepsEverythingAndTheRingGoes) {
  const temporary_folder folder;
  constexpr std::uint64_t total = 50'000;
  {
    auto made = value_of(recorder::start(full_in(folder.path())));
    made->set_run(9, 3, 1);
    made->describe("job", boost::json::object{{"data", "adult"}});
    for (std::uint64_t i = 1; i <= total; ++i) {
      made->append(made_record(i));
      if (i % 1000 == 0) std::this_thread::yield();
    }
    content held;
    held.id = 5;
    held.parts.resize(1);
    held.parts[0].name = "tables[0].indices";
    made->keep({[held] { return held; }, 8});
    made->finish(true);
  }
  EXPECT_EQ(only_file(folder.path(), ".ring"), "");
  const auto read = value_of(read_trace_file(only_file(folder.path(), ".log")));
  EXPECT_TRUE(read.warnings.empty());
  EXPECT_EQ(ids_in(read).size() + read.chunks_lost * records_per_chunk, total);
  EXPECT_EQ(read.run, 9U);
  EXPECT_EQ(read.node, 3U);
  EXPECT_EQ(read.end, ending::clean);
  EXPECT_EQ(read.metadata.at("job").at("data").as_string(), "adult");
  ASSERT_EQ(read.contents.size(), 1U);
  EXPECT_EQ(read.contents[0].id, 5U);
  EXPECT_EQ(read.contents[0].parts.at(0).name, "tables[0].indices");
}

TEST(Recorder, AFailedEndKeepsTheRing) {
  const temporary_folder folder;
  recorder::options how = full_in(folder.path());
  how.what = mode::ring;
  {
    auto made = value_of(recorder::start(how));
    made->append(made_record(1));
    made->finish(false);
  }
  const auto read = value_of(read_trace_file(only_file(folder.path(), ".ring")));
  EXPECT_EQ(read.end, ending::failed);
  EXPECT_EQ(ids_in(read), std::vector<std::uint64_t>{1});
}

TEST(Recorder, TheFilterDropsAndCounts) {
  const temporary_folder folder;
  recorder::options how = full_in(folder.path());
  how.what = mode::ring;
  how.wanted = *parse_filter("type=lookup,steps=10-20,count=3");
  auto made = value_of(recorder::start(how));
  EXPECT_FALSE(made->wants(200, 9));
  EXPECT_TRUE(made->wants(200, 10));
  EXPECT_FALSE(made->wants(201, 10));
  EXPECT_TRUE(made->wants(200, 20));
  EXPECT_FALSE(made->wants(200, 21));
  EXPECT_TRUE(made->wants(200, 15));
  EXPECT_FALSE(made->wants(200, 15));  // the limit of the count is reached
  made->note_dropped();
  const auto read = value_of(read_trace_file(only_file(folder.path(), ".ring")));
  EXPECT_EQ(read.dropped, 1U);
}

// -- damaged and foreign files ---------------------------------------------------------

class DamagedTrace : public testing::Test {
 protected:
  void SetUp() override {
    auto made = value_of(recorder::start(full_in(folder_.path())));
    for (std::uint64_t i = 1; i <= 5000; ++i) made->append(made_record(i));
    made->finish(true);
    made.reset();
    bytes_ = read_file(only_file(folder_.path(), ".log"));
    ASSERT_GT(bytes_.size(), head_bytes + metadata_bytes + sizeof(block_head));
  }

  temporary_folder folder_;
  std::string bytes_;
};

TEST_F(DamagedTrace, CutOffLogsAreReadAsFarAsTheyGo) {
  const auto whole = value_of(parse_trace_file(bytes_, "whole"));
  const auto cut = value_of(parse_trace_file(std::string_view(bytes_).substr(0, bytes_.size() - 10), "cut"));
  ASSERT_EQ(cut.warnings.size(), 1U);
  EXPECT_NE(cut.warnings[0].find("cut: cut off at byte"), std::string::npos);
  EXPECT_EQ(ids_in(cut).size(), ids_in(whole).size());  // only the last block, the board, is cut
}

TEST_F(DamagedTrace, AFlippedBitIsNoticed) {
  bytes_[head_bytes + metadata_bytes + sizeof(block_head) + 100] ^= 1;
  const auto read = value_of(parse_trace_file(bytes_, "flipped"));
  ASSERT_EQ(read.warnings.size(), 1U);
  EXPECT_NE(read.warnings[0].find("damaged at byte"), std::string::npos);
}

TEST_F(DamagedTrace, NewerVersionsAndForeignFilesAreRefused) {
  std::string newer = bytes_;
  newer[8] = 2;
  EXPECT_EQ(parse_trace_file(newer, "n").error().message, "n: is of version 2, this troupe reads version 1");
  EXPECT_EQ(parse_trace_file("hello", "f").error().message, "f: is not a trace of troupe");
  EXPECT_EQ(parse_trace_file("", "f").error().message, "f: is not a trace of troupe");
  EXPECT_EQ(parse_trace_file(std::string_view(bytes_).substr(0, 100), "s").error().message,
            "s: is cut off after 100 bytes");
}

}  // namespace
}  // namespace troupe::trace::ring_test
