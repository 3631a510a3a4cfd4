#include "trace/analysis/table.hpp"

#include <gtest/gtest.h>

namespace troupe::analysis::table_test {
namespace {

TEST(Table, AlignsColumnsAndTellsHowManyRowsAreLeftOut) {
  table rows({"who", "time"}, "lr");
  rows.add({"trainer 0", "1 ms"});
  rows.add({"server", "10 ms"});
  EXPECT_EQ(rows.text(), "  who         time\n  trainer 0   1 ms\n  server     10 ms\n");
  EXPECT_EQ(rows.text(1), "  who        time\n  trainer 0  1 ms\n  ... and 1 more\n");
}

}  // namespace
}  // namespace troupe::analysis::table_test
