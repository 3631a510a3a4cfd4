// Reads a file's contents, for tests.

#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace troupe {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream content;  // Piece by piece: an iterator takes seconds in unoptimized tests
  content << file.rdbuf();
  return std::move(content).str();
}

}  // namespace troupe
