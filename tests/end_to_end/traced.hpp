// Runs whose traces a test inspects, and runs with deliberate faults.

#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/end_to_end/program.hpp"
#include "tests/end_to_end/several.hpp"

namespace troupe::end_to_end {

/// A folder for a trace, removed with this object.
class temporary_trace {
 public:
  temporary_trace() : path_(testing::TempDir() + "troupe-trace-XXXXXX") { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  ~temporary_trace() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  temporary_trace(const temporary_trace&) = delete;
  temporary_trace& operator=(const temporary_trace&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The faulty program with these faults, as described in actors/common/faults.hpp.
inline launch with_faults(const std::string& faults) {
  launch how;
  how.program = TROUPE_FAULTY_PROGRAM;
  how.environment = {{"TROUPE_FAULTS", faults}};
  return how;
}

/// A job of short steps.
const args small = {"train", "--data", "synthetic", "--rows", "1000", "--batch-size", "16"};

}  // namespace troupe::end_to_end
