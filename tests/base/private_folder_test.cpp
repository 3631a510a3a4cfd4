// Goal: other users cannot enter or read folders and files made for this user alone, and making them never follows a
// link that another user put in their path.

#include "base/private_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/read_file.hpp"

namespace troupe::private_folder_test {
namespace {

namespace fs = std::filesystem;

class PrivateFolder : public testing::Test {
 protected:
  PrivateFolder() : place_(testing::TempDir() + "troupe-base-XXXXXX") { EXPECT_NE(mkdtemp(place_.data()), nullptr); }
  ~PrivateFolder() override {
    std::error_code ignored;
    fs::remove_all(place_, ignored);
  }

  fs::path operator/(const char* name) const { return fs::path(place_) / name; }

  static std::string permissions(const fs::path& path) {
    struct stat found {};
    EXPECT_EQ(::lstat(path.c_str(), &found), 0) << path;
    return fmt::format("{:o}", found.st_mode & 07777U);
  }

  static std::string refusal(const fs::path& path) {
    const auto opened = private_folder::open(path);
    EXPECT_FALSE(opened.has_value()) << path;
    return opened ? "" : opened.error().message;
  }

  std::string place_;
};

TEST_F(PrivateFolder, IsMadeForItsOwnerAloneWithThoseAboveIt) {
  const mode_t before = ::umask(0);
  const auto made = private_folder::open(*this / "a/b");
  ::umask(before);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(permissions(made->path()), "700");
  ASSERT_TRUE(made->write("file", "text").has_value());
  EXPECT_EQ(permissions(made->path() / "file"), "600");
  EXPECT_EQ(read_file(made->path() / "file"), "text");
}

TEST_F(PrivateFolder, ThatIsThereIsTakenFromOthers) {
  ASSERT_TRUE(fs::create_directory(*this / "open"));
  fs::permissions(*this / "open", fs::perms::all);
  ASSERT_TRUE(private_folder::open(*this / "open").has_value());
  EXPECT_EQ(permissions(*this / "open"), "700");
}

TEST_F(PrivateFolder, IsNoLinkNoFileAndNobodyElses) {
  ASSERT_TRUE(fs::create_directory(*this / "victim"));
  fs::permissions(*this / "victim", fs::perms::owner_all | fs::perms::others_read);
  fs::create_directory_symlink(*this / "victim", *this / "link");
  fs::create_symlink(*this / "nowhere", *this / "dangling");
  std::ofstream(*this / "file") << "text";
  EXPECT_EQ(refusal(*this / "link"), (*this / "link").string() + ": is a link");
  EXPECT_EQ(permissions(*this / "victim"), "704");
  EXPECT_EQ(refusal(*this / "dangling"), (*this / "dangling").string() + ": cannot be made: File exists");
  EXPECT_FALSE(fs::exists(*this / "nowhere"));
  EXPECT_EQ(refusal(*this / "file"), (*this / "file").string() + ": cannot be made: File exists");
  // Only root can give a folder away; for all other users, / belongs to another user.
  constexpr uid_t somebody = 65534;
  const bool is_root = ::geteuid() == 0;
  if (is_root && ::chown((*this / "victim").c_str(), somebody, somebody) != 0)
    GTEST_SKIP() << "this root can give no folder away";
  const fs::path theirs = is_root ? *this / "victim" : fs::path("/");
  const std::string owner = is_root ? "65534" : "0";
  EXPECT_EQ(refusal(theirs), theirs.string() + ": belongs to another user (" + owner + ")");
}

TEST_F(PrivateFolder, WritesNewFilesOnlyAndThroughNoLink) {
  std::ofstream(*this / "mine") << "private";
  const auto folder = private_folder::open(*this / "folder");
  ASSERT_TRUE(folder.has_value());
  fs::create_symlink(*this / "mine", folder->path() / "link");
  fs::create_symlink(*this / "nowhere", folder->path() / "dangling");
  fs::create_hard_link(*this / "mine", folder->path() / "second name");
  for (const char* name : {"link", "dangling", "second name"}) {
    EXPECT_TRUE(folder->has(name)) << name;
    const auto written = folder->write(name, "other");
    ASSERT_FALSE(written.has_value()) << name;
    EXPECT_EQ(written.error().message, (folder->path() / name).string() + ": cannot be made: File exists");
  }
  EXPECT_EQ(read_file(*this / "mine"), "private");
  EXPECT_FALSE(fs::exists(*this / "nowhere"));
  EXPECT_FALSE(folder->has("none"));
}

TEST_F(PrivateFolder, IsTheOneThatWasOpenedWhateverItsPathLeadsTo) {
  const auto folder = private_folder::open(*this / "folder");
  ASSERT_TRUE(folder.has_value());
  ASSERT_TRUE(fs::create_directory(*this / "victim"));
  fs::rename(*this / "folder", *this / "moved");
  fs::create_directory_symlink(*this / "victim", *this / "folder");
  ASSERT_TRUE(folder->write("file", "text").has_value());
  EXPECT_EQ(read_file(*this / "moved/file"), "text");
  EXPECT_TRUE(fs::is_empty(*this / "victim"));
}

TEST_F(PrivateFolder, IsANewOneWhereSomethingIsThere) {
  ASSERT_TRUE(fs::create_directory(*this / "victim"));
  fs::create_directory_symlink(*this / "victim", *this / "name");
  std::ofstream(*this / "name-2") << "text";
  const auto made = private_folder::create(*this / "name");
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(made->path(), *this / "name-3");
  EXPECT_EQ(permissions(made->path()), "700");
}

}  // namespace
}  // namespace troupe::private_folder_test
