#include "trace/analysis/trace.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace troupe::analysis::part_test {
namespace {

TEST(Part, TakesWhatIsOfAStretch) {
  trace::recording run;
  for (int i = 0; i < 5; ++i) {
    trace::event& e = run.events.emplace_back();
    e.begin = i * 10;
    e.end = e.begin + 15;
    e.id = static_cast<std::uint64_t>(i);
  }
  const auto ids = [](const trace::recording& of) {
    std::vector<std::uint64_t> all;
    for (const trace::event& e : of.events) all.push_back(e.id);
    return all;
  };
  EXPECT_EQ(ids(part_of(run, 20, 40)), (std::vector<std::uint64_t>{1, 2, 3})) << "0 ends at 15, 4 begins at 40";
  EXPECT_EQ(ids(newest_of(run, 2)), (std::vector<std::uint64_t>{3, 4}));
  EXPECT_EQ(ids(newest_of(run, 9)).size(), 5u);
}

}  // namespace
}  // namespace troupe::analysis::part_test
