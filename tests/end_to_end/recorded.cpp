#include "tests/end_to_end/recorded.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "trace/analysis/check.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::end_to_end {

namespace {

std::string folder_of_test;

/// The runs whose traces are in a folder.
std::set<std::uint64_t> runs_in(const std::string& folder) {
  std::set<std::uint64_t> runs;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || !trace::is_trace_file(entry.path())) continue;
    // A process that was killed at the start of recording left a file without a header.
    if (const auto file = trace::read_trace_file(entry.path()); file && file->run != 0) runs.insert(file->run);
  }
  return runs;
}

class trace_checker : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo&) override {
    std::string name = testing::TempDir() + "troupe-traces-XXXXXX";
    folder_of_test = mkdtemp(name.data());
  }

  void OnTestEnd(const testing::TestInfo&) override {
    for (const std::uint64_t run : runs_in(folder_of_test)) {
      const auto recording = trace::read_recording({{folder_of_test}, run});
      if (!recording) {
        ADD_FAILURE() << recording.error().message;
        continue;
      }
      const analysis::check_report found = analysis::check(*recording);
      EXPECT_TRUE(found.holds()) << "run " << run << ": " << analysis::to_text(found);
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_of_test, ignored);
    folder_of_test.clear();
  }
};

/// Before main begins: listeners are called from the first test on.
const bool is_listening = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new trace_checker);
  return true;
}();

}  // namespace

std::vector<std::pair<std::string, std::string>> recording_variables() {
  if (folder_of_test.empty() || !is_listening) return {};
  return {{"TROUPE_TRACE", "full"}, {"TROUPE_TRACE_DIR", folder_of_test}};
}

}  // namespace troupe::end_to_end
