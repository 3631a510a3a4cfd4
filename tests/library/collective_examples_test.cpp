// The examples of collectives print what they should, in one process and in several.

#include <gtest/gtest.h>

#include <string>

#include "tests/library/example_output.hpp"

namespace troupe::collective_examples_test {
namespace {

using test::output_of;

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
