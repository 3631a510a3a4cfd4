// Runs an example that saves checkpoints, and kills it.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/child_process.hpp"

namespace troupe::test {

/// Returns the newest checkpoint's file in a folder; empty without checkpoints.
inline std::string newest_in(const std::filesystem::path& folder) {
  std::string newest;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    if (entry.path().extension() == ".json") newest = std::max(newest, entry.path().filename().string());
  return newest;
}

/// Runs an example that saves checkpoints, and kills it once there is a checkpoint newer than the existing ones.
/// Returns whether it was killed before it ended by itself.
inline bool run_and_kill(const std::string& example, const std::filesystem::path& folder) {
  const std::string program = "example_" + example;
  const std::string before = newest_in(folder);
  std::vector<std::string> text = {
      program, "--quiet", "--trace", "off", "--save", folder.string(), "--checkpoint-every", "10"};
  if (!before.empty()) text.insert(text.end(), {"--resume", folder.string()});
  auto child = child_process::start(std::string(TROUPE_EXAMPLES) + "/" + program, text, {});
  EXPECT_TRUE(child);
  while (newest_in(folder) <= before && !child->has_ended()) {
    child->poll();
    std::this_thread::yield();
  }
  if (child->has_ended()) return false;
  child->kill();
  return true;
}

}  // namespace troupe::test
