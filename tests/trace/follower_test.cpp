// A ring is followed while it is written, and its events become lines.

#include "trace/follower.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "temporary_folder.hpp"
#include "tests/trace/made_recording.hpp"
#include "trace/machine.hpp"
#include "trace/ring.hpp"
#include "trace/tail.hpp"

namespace troupe::trace::follower_test {
namespace {

record numbered(std::uint64_t id) {
  record made;
  made.begin = ticks_now();
  made.id = id;
  made.bytes32_kind8_flags8_stamp16 = pack_kind(0, kind::handled, 0);
  return made;
}

std::unique_ptr<ring> ring_in(const std::filesystem::path& folder) {
  auto made = ring::create({.file = folder / "a.ring", .bytes = 16 * chunk_bytes});
  EXPECT_TRUE(made) << made.error().message;
  (*made)->set_metadata(R"({"boot":")" + this_boot() + "\"}");
  (*made)->head().run.store(5);
  return std::move(*made);
}

std::vector<std::uint64_t> ids_in(const result<recording>& taken) {
  EXPECT_TRUE(taken) << taken.error().message;
  std::vector<std::uint64_t> ids;
  for (const event& one : taken->events) ids.push_back(one.id);
  return ids;
}

using numbers = std::vector<std::uint64_t>;

TEST(Follower, GivesEachRecordOnce) {
  const temporary_folder folder;
  const auto made = ring_in(folder.path());
  made->append(numbered(1));
  made->append(numbered(2));
  auto all = follower::open({{folder.path()}, 0});
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(ids_in(all->take()), (numbers{1, 2}));
  EXPECT_EQ(ids_in(all->take()), numbers{});
  made->append(numbered(3));
  EXPECT_EQ(ids_in(all->take()), numbers{3});
  numbers many;
  for (std::uint64_t i = 4; i < 4 + 3 * records_per_chunk; ++i) {
    made->append(numbered(i));
    many.push_back(i);
  }
  EXPECT_EQ(ids_in(all->take()), many);
  EXPECT_EQ(all->lost(), 0U);
  EXPECT_TRUE(all->is_live());
}

TEST(Follower, CountsWhatWasOverwritten) {
  const temporary_folder folder;
  const auto made = ring_in(folder.path());
  for (std::uint64_t i = 0; i < 40 * records_per_chunk; ++i) made->append(numbered(i + 1));
  auto all = follower::open({{folder.path()}, 0});
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(ids_in(all->take()).size(), 16 * records_per_chunk);
  EXPECT_EQ(all->lost(), 0U);  // what had gone before it began to follow is no loss
  for (std::uint64_t i = 0; i < 20 * records_per_chunk; ++i) made->append(numbered(i + 1));
  EXPECT_EQ(ids_in(all->take()).size(), 16 * records_per_chunk);
  EXPECT_EQ(all->lost(), 4 * records_per_chunk);
}

TEST(Follower, EndsWithTheProcesses) {
  const temporary_folder folder;
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto made = ring_in(folder.path());
    made->append(numbered(1));
    (void)!::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  auto all = follower::open({{folder.path()}, 0});
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(ids_in(all->take()), numbers{1});
  EXPECT_TRUE(all->is_live());
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(ids_in(all->take()), numbers{});
  EXPECT_FALSE(all->is_live());
}

TEST(Follower, ReadsWhatIsLeftOfAFileThatIsGone) {
  const temporary_folder folder;
  const auto made = ring_in(folder.path());
  auto all = follower::open({{folder.path()}, 0});
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(ids_in(all->take()), numbers{});
  made->append(numbered(1));
  made->head().end.store(ending::clean);
  std::filesystem::remove(made->file());
  EXPECT_EQ(ids_in(all->take()), numbers{1});
  EXPECT_FALSE(all->is_live());
}

TEST(Follower, NeedsSomethingToFollow) {
  const temporary_folder folder;
  const auto none = follower::open({{folder.path()}, 0});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("holds no traces"), std::string::npos);
}

// -- lines -------------------------------------------------------------------------

made_recording busy_server() {
  made_recording made{1, 2};
  // Three messages arrive at once; each takes 10 us.
  for (const std::uint64_t i : {0, 1, 2})
    made.handled({.from = made.trainer(1),
                  .to = made.server(0),
                  .type = i == 1 ? "lookup" : "gradient",
                  .step = 7 + i,
                  .cause = made_id(made.server(0), 12),
                  .sent = us(90),
                  .arrived = us(100),
                  .begin = us(100 + 10 * static_cast<std::int64_t>(i)),
                  .end = us(110 + 10 * static_cast<std::int64_t>(i)),
                  .bytes = 2048});
  made.range(made.server(0), range_name::apply, 7, us(104), us(109));
  return made;
}

TEST(Tail, LinesHaveFixedColumns) {
  made_recording made = busy_server();
  const recording& run = made.done();
  const auto shown = tail_events(run, {});
  ASSERT_EQ(shown.size(), 4U);
  EXPECT_EQ(tail_header(),
            "     time (s)     step  actor         kind               type                 from              bytes    "
            "queued    worked  queue  because of");
  EXPECT_EQ(
      tail_line(run, shown[0]),
      "     0.000100        7  server 0      handled            gradient             trainer 1       2.0 KiB      "
      "0 ns   10.0 us      2  server 0 #12");
  EXPECT_EQ(
      tail_line(run, shown[1]),
      "     0.000104        7  server 0      range              apply                                              "
      "       5.0 us");
  EXPECT_EQ(shown[2].queue_depth, 1U);
  EXPECT_EQ(shown[3].queue_depth, 0U);
}

TEST(Tail, FiltersByActorTypeAndStep) {
  made_recording made = busy_server();
  const recording& run = made.done();
  const auto count = [&](std::string_view filter) { return tail_events(run, *parse_filter(filter)).size(); };
  EXPECT_EQ(count("actor=server *"), 4U);
  EXPECT_EQ(count("actor=trainer *"), 0U);
  EXPECT_EQ(count("type=gradient"), 2U);
  EXPECT_EQ(count("type=apply"), 1U);
  EXPECT_EQ(count("type=gradient,type=lookup,steps=8-9"), 2U);
}

TEST(Tail, JsonNamesWhatColumnsShow) {
  made_recording made = busy_server();
  const recording& run = made.done();
  const boost::json::object json = tail_json(run, tail_events(run, {}).front());
  EXPECT_EQ(json.at("kind").as_string(), "handled");
  EXPECT_EQ(json.at("type").as_string(), "gradient");
  EXPECT_EQ(json.at("message").as_string(), "trainer 1 #1");
  EXPECT_EQ(json.at("because_of").as_string(), "server 0 #12");
  EXPECT_EQ(json.at("queue_depth").as_uint64(), 2U);
  EXPECT_EQ(json.at("arrived_ns").as_int64(), us(100));
}

}  // namespace
}  // namespace troupe::trace::follower_test
