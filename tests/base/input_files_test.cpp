#include "base/input_files.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/descriptor.hpp"

namespace troupe::input_files_test {
namespace {

std::string made_file(const std::string& name) {
  const std::string path = testing::TempDir() + "input_files_" + name;
  std::filesystem::remove(path);
  std::ofstream(path) << name;
  return path;
}

TEST(InputFiles, AreKnownByAllTheirNames) {
  const std::string path = made_file("read");
  const std::string link = path + ".link";
  const std::string second_name = path + ".hard";
  std::filesystem::remove(link);
  std::filesystem::remove(second_name);
  std::filesystem::create_symlink(path, link);
  std::filesystem::create_hard_link(path, second_name);
  EXPECT_TRUE(check_output(link));
  remember_input(link, "the job file");
  for (const std::string& name : {path, link, second_name, testing::TempDir() + "./input_files_read"}) {
    EXPECT_EQ(input_at(name), "the job file") << name;
    const auto refused = check_output(name);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().message, "is the job file; name another file");
  }
}

TEST(InputFiles, KeepWhatTheyWereFirst) {
  const std::string path = made_file("twice");
  const auto open = descriptor::open(path, 0);
  ASSERT_TRUE(open);
  remember_input(path, "the file that rows are read from");
  remember_input(path, "the job file");
  EXPECT_EQ(input_behind(open->number()), "the file that rows are read from");
}

// The system reuses the inodes of removed files for new files that were never read.
TEST(InputFiles, AreForgottenWithTheFile) {
  for (int i = 0; i < 50; ++i) {
    const std::string path = made_file("removed" + std::to_string(i));
    EXPECT_EQ(input_at(path), std::nullopt) << i;
    remember_input(path, "the job file");
    EXPECT_EQ(input_at(path), "the job file") << i;
    std::filesystem::remove(path);
  }
}

TEST(InputFiles, AreNotFilesThatAreNotReadNorDevices) {
  EXPECT_EQ(input_at(made_file("other")), std::nullopt);
  EXPECT_TRUE(check_output(testing::TempDir() + "input_files_none"));
  remember_input("/dev/null", "a device");
  EXPECT_TRUE(check_output("/dev/null"));
  EXPECT_EQ(input_behind(-1), std::nullopt);
}

}  // namespace
}  // namespace troupe::input_files_test
