// The contents of the simulated disk after a power cut: everything synced, and any part of the rest; over many seeds
// every part occurs.

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "model/output_file.hpp"
#include "tests/read_file.hpp"
#include "tests/simulation/sim_disk.hpp"

namespace troupe::simulation::sim_disk_test {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// The contents of a file; `gone` if it does not exist.
std::string content(const std::string& path) { return std::filesystem::exists(path) ? read_file(path) : "gone"; }

/// The different contents of a file after many power cuts that follow `write` on a new disk.
template <class Write>
std::set<std::string> left_after(Write write) {
  std::set<std::string> seen;
  for (std::uint64_t key = 0; key < 60; ++key) {
    sim_disk on;
    const std::string path = on.root() + "/file";
    write(on, path);
    model::random_sequence random(key);
    on.cut_power(random);
    seen.insert(content(path));
  }
  return seen;
}

TEST(SimDisk, KeepsWhatIsSynced) {
  const auto left = left_after([](const sim_disk& on, const std::string& path) {
    ASSERT_TRUE(model::write_whole_file(path, bytes_of("all of it")));
    ASSERT_TRUE(model::sync_folder(on.root()));
  });
  EXPECT_EQ(left, (std::set<std::string>{"all of it"}));
}

TEST(SimDisk, LosesAFileWhoseFolderIsNotSynced) {
  const auto left = left_after([](const sim_disk&, const std::string& path) {
    ASSERT_TRUE(model::write_whole_file(path, bytes_of("all of it")));
  });
  EXPECT_EQ(left, (std::set<std::string>{"all of it", "gone"}));
}

TEST(SimDisk, LosesBytesOfAFileThatIsNotSynced) {
  const std::string text(512, 'a');  // a piece that is written at once
  const auto left = left_after([&text](sim_disk& on, const std::string& path) {
    on.forget(forgotten_sync::of_files);
    ASSERT_TRUE(model::write_whole_file(path, bytes_of(text + "b")));
    ASSERT_TRUE(model::sync_folder(on.root()));
  });
  EXPECT_EQ(left, (std::set<std::string>{"", text, text + "b", std::string(512, '\0') + "b"}));
}

TEST(SimDisk, FailsCallsAsAFullDiskDoes) {
  sim_disk on;
  on.fail(1, 1);  // the file is created; its bytes are not written
  const auto done = model::write_whole_file(on.root() + "/file", bytes_of("all"));
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("No space left on device after 0 of 3 bytes"), std::string::npos);
  EXPECT_TRUE(on.has_failed());
  EXPECT_TRUE(model::write_whole_file(on.root() + "/file", bytes_of("all")));
  EXPECT_FALSE(on.has_failed());
}

TEST(SimDisk, TakesNothingOfTheDead) {
  sim_disk on;
  on.caller(1, true);
  EXPECT_FALSE(model::write_whole_file(on.root() + "/file", bytes_of("all")));
  EXPECT_EQ(content(on.root() + "/file"), "gone");
}

}  // namespace
}  // namespace troupe::simulation::sim_disk_test
