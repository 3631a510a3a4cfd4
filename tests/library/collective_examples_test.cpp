// The examples of collectives print what they should, in one process and in several.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace troupe::collective_examples_test {
namespace {

/// What a program writes to its standard output; its exit code, if that is not 0.
std::string output_of(const std::string& example, const std::string& options = "") {
  const std::string command = std::string(TROUPE_EXAMPLES) + "/example_" + example + " --quiet " + options;
  std::FILE* const from = ::popen(command.c_str(), "r");
  if (from == nullptr) return "cannot be started";
  std::string text;
  for (int c = std::fgetc(from); c != EOF; c = std::fgetc(from)) text += static_cast<char>(c);
  const int status = ::pclose(from);
  return status == 0 ? text : text + "status " + std::to_string(status);
}

const std::string each_once = R"(all_reduce sum           6 30
all_reduce mean          2 10
all_reduce min           1 0
all_reduce max           3 20
all_reduce sum of six    3 6 9 12 15 21
all_gather               1 0
all_gather               2 10
all_gather               3 20
reduce_scatter           3 6
broadcast from 2         3 20
gather to 0              1 0
gather to 0              2 10
gather to 0              3 20
scatter from 1           7
recv from 2              3 20
all_reduce of 0 and 2    4 20
)";

TEST(CollectiveExamples, PrintEachCollectiveOnce) {
  EXPECT_EQ(output_of("collectives"), each_once);
  EXPECT_EQ(output_of("collectives", "--processes"), each_once);
}

}  // namespace
}  // namespace troupe::collective_examples_test
