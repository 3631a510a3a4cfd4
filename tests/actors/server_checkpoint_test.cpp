// A server's modules keep their state for a checkpoint until it is written.

#include "actors/server/server_checkpoint.hpp"

#include <gtest/gtest.h>

namespace troupe::actors::server_checkpoint_test {
namespace {

constexpr std::uint64_t first = 1;
constexpr std::uint64_t second = 2;

TEST(ServerCheckpoint, HasNoAllowanceBeforeTheFirst) {
  server_checkpoint one;
  EXPECT_EQ(one.allowance(), nullptr);
  EXPECT_FALSE(one.update());
  EXPECT_FALSE(one.is_kept(first, 0));
}

TEST(ServerCheckpoint, AModuleKeepsItsStateOnceUntilItIsWritten) {
  server_checkpoint one;
  one.may_keep(100);
  one.begin(7, [] {});
  ASSERT_NE(one.allowance(), nullptr);
  EXPECT_EQ(one.update(), 7U);
  EXPECT_TRUE(one.keep(first));
  EXPECT_FALSE(one.keep(first)) << "it does already";
  EXPECT_TRUE(one.is_kept(first, 7));
  EXPECT_FALSE(one.is_kept(first, 8)) << "that is another state";
  EXPECT_FALSE(one.is_kept(second, 7));
  one.begin_module(first);
  EXPECT_FALSE(one.is_kept(first, 7));
  EXPECT_FALSE(one.keep(first)) << "it is written";
}

TEST(ServerCheckpoint, AModuleIsBeingWrittenUntilItsOwnWriteEnds) {
  server_checkpoint one;
  one.begin(7, [] {});
  one.begin_module(first);
  EXPECT_FALSE(one.is_writing(first, 7));
  one.writing_begins(first);
  EXPECT_TRUE(one.is_writing(first, 7));
  EXPECT_FALSE(one.is_writing(second, 7));
  EXPECT_FALSE(one.is_writing(first, 8));
  one.begin(8, [] {});
  one.writing_begins(first);
  one.writing_ends(first);
  EXPECT_TRUE(one.is_writing(first, 8)) << "one of two writes has ended";
  one.writing_ends(first);
  EXPECT_FALSE(one.is_writing(first, 8));
}

TEST(ServerCheckpoint, TheNextOneBeginsAnewAndTheSameOneGoesOn) {
  server_checkpoint one;
  one.begin(7, [] {});
  const auto* allowance = one.allowance().get();
  EXPECT_TRUE(one.keep(first));
  one.begin(7, [] {});
  EXPECT_TRUE(one.is_kept(first, 7));
  EXPECT_EQ(one.allowance().get(), allowance);
  const auto before = one.allowance();
  one.begin(8, [] {});
  EXPECT_NE(one.allowance(), before);
  EXPECT_FALSE(one.is_kept(first, 8));
  EXPECT_TRUE(one.keep(first));
}

TEST(ServerCheckpoint, AModuleThatIsReleasedIsForgotten) {
  server_checkpoint one;
  one.begin(7, [] {});
  EXPECT_TRUE(one.keep(first));
  one.forget(first);
  EXPECT_FALSE(one.is_kept(first, 7));
}

}  // namespace
}  // namespace troupe::actors::server_checkpoint_test
