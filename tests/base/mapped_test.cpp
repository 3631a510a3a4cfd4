#include "base/mapped.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace troupe::mapped_test {
namespace {

struct row {
  const char* name;
  int number;
};

TEST(Mapped, HasWhatTheFunctionReturnsInOrder) {
  const std::map<int, std::string> all = {{2, "bb"}, {1, "a"}};
  EXPECT_EQ(mapped(all, [](const auto& one) { return one.second.size(); }), (std::vector<std::size_t>{1, 2}));
  EXPECT_TRUE(mapped(std::vector<int>(), [](int x) { return x; }).empty());
}

TEST(Mapped, TakesPointersToMembersAndTheTypeOfElements) {
  const row rows[] = {{"b", 7}, {"a", 8}};
  EXPECT_EQ(mapped(rows, &row::number), (std::vector<int>{7, 8}));
  EXPECT_EQ(mapped<std::string>(rows, &row::name), (std::vector<std::string>{"b", "a"}));
}

}  // namespace
}  // namespace troupe::mapped_test
