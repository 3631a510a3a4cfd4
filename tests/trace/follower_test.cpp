// Following a ring while it is written.

#include "trace/record/follower.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/json/serialize.hpp>
#include <csignal>

#include "temporary_folder.hpp"
#include "tests/value_of.hpp"
#include "trace/record/attempts.hpp"
#include "trace/record/clock.hpp"
#include "trace/record/ring.hpp"

namespace troupe::trace::follower_test {
namespace {

record numbered(std::uint64_t id) {
  record made;
  made.begin = ticks_now();
  made.id = id;
  made.bytes32_kind8_flags8_stamp16 = pack_kind(0, kind::handled, 0);
  return made;
}

std::unique_ptr<ring> ring_in(const std::filesystem::path& folder, const char* name = "a.ring",
                              std::uint64_t attempt = 0) {
  auto made = ring::create({.file = folder / name, .bytes = 16 * chunk_bytes});
  EXPECT_TRUE(made) << made.error().message;
  boost::json::object metadata{{"boot", this_boot()}};
  if (attempt > 0) metadata[attempt_key] = describe_attempt("a run", attempt, "lost", 0);
  (*made)->set_metadata(boost::json::serialize(metadata));
  (*made)->head().run.store(5 + attempt);
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
  auto all = value_of(follower::open({{folder.path()}, 0}));
  EXPECT_EQ(ids_in(all.take()), (numbers{1, 2}));
  EXPECT_EQ(ids_in(all.take()), numbers{});
  made->append(numbered(3));
  EXPECT_EQ(ids_in(all.take()), numbers{3});
  numbers many;
  for (std::uint64_t i = 4; i < 4 + 3 * records_per_chunk; ++i) {
    made->append(numbered(i));
    many.push_back(i);
  }
  EXPECT_EQ(ids_in(all.take()), many);
  EXPECT_EQ(all.lost(), 0U);
  EXPECT_TRUE(all.is_live());
}

TEST(Follower, CountsWhatWasOverwritten) {
  const temporary_folder folder;
  const auto made = ring_in(folder.path());
  for (std::uint64_t i = 0; i < 40 * records_per_chunk; ++i) made->append(numbered(i + 1));
  auto all = value_of(follower::open({{folder.path()}, 0}));
  EXPECT_EQ(ids_in(all.take()).size(), 16 * records_per_chunk);
  EXPECT_EQ(all.lost(), 0U);  // records overwritten before it began to follow do not count as lost
  for (std::uint64_t i = 0; i < 20 * records_per_chunk; ++i) made->append(numbered(i + 1));
  EXPECT_EQ(ids_in(all.take()).size(), 16 * records_per_chunk);
  EXPECT_EQ(all.lost(), 4 * records_per_chunk);
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
  auto all = value_of(follower::open({{folder.path()}, 0}));
  EXPECT_EQ(ids_in(all.take()), numbers{1});
  EXPECT_TRUE(all.is_live());
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(ids_in(all.take()), numbers{});
  EXPECT_FALSE(all.is_live());
}

TEST(Follower, ReadsWhatIsLeftOfAFileThatIsGone) {
  const temporary_folder folder;
  const auto made = ring_in(folder.path());
  auto all = value_of(follower::open({{folder.path()}, 0}));
  EXPECT_EQ(ids_in(all.take()), numbers{});
  made->append(numbered(1));
  made->head().end.store(ending::clean);
  std::filesystem::remove(made->file());
  EXPECT_EQ(ids_in(all.take()), numbers{1});
  EXPECT_FALSE(all.is_live());
}

TEST(Follower, GoesOnWithTheNextAttempt) {
  const temporary_folder folder;
  const auto first = ring_in(folder.path(), "a.ring", 1);
  first->append(numbered(1));
  auto all = follower::open({{folder.path()}, 0});
  auto only_first = follower::open({.paths = {folder.path()}, .attempt = 1});
  ASSERT_TRUE(all && only_first);
  EXPECT_EQ(ids_in(all->take()), numbers{1});
  EXPECT_EQ(ids_in(only_first->take()), numbers{1});
  first->append(numbered(2));
  const auto second = ring_in(folder.path(), "b.ring", 2);
  second->append(numbered(3));
  first->head().end.store(ending::failed);
  second->head().end.store(ending::failed);
  EXPECT_EQ(ids_in(all->take()), numbers{2}) << "what was left of the attempt before comes first";
  EXPECT_TRUE(all->is_live()) << "more comes";
  const auto next = all->take();
  EXPECT_EQ(ids_in(next), numbers{3});
  EXPECT_EQ(next->run, 7u);
  EXPECT_FALSE(all->is_live());
  second->append(numbered(4));
  EXPECT_EQ(ids_in(all->take()), numbers{4});
  EXPECT_EQ(ids_in(only_first->take()), numbers{2});
}

TEST(Follower, NeedsSomethingToFollow) {
  const temporary_folder folder;
  const auto none = follower::open({{folder.path()}, 0});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("holds no traces"), std::string::npos);
}

}  // namespace
}  // namespace troupe::trace::follower_test
