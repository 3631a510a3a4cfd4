#include "base/function_ref.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace troupe::function_ref_test {
namespace {

int call_with(function_ref<int(int)> what, int x) { return what(x); }

TEST(FunctionRef, CallsWhatItRefersToWithItsState) {
  int calls = 0;
  const auto count = [&calls](int x) {
    ++calls;
    return x + 1;
  };
  EXPECT_EQ(call_with(count, 4), 5);
  EXPECT_EQ(call_with(count, 5), 6);
  EXPECT_EQ(calls, 2);
}

TEST(FunctionRef, ChangesTheObjectItself) {
  struct adder {
    int sum = 0;
    int operator()(int x) { return sum += x; }
  } all;
  call_with(all, 2);
  EXPECT_EQ(call_with(all, 3), 5);
  EXPECT_EQ(all.sum, 5);
}

TEST(FunctionRef, PassesReferencesAndWhatOnlyMoves) {
  std::string text = "a";
  const auto append = [](std::string& to) { to += "b"; };
  const function_ref<void(std::string&)> appended = append;
  appended(text);
  EXPECT_EQ(text, "ab");
  const auto take = [](std::unique_ptr<int> one) { return *one; };
  const function_ref<int(std::unique_ptr<int>)> taken = take;
  EXPECT_EQ(taken(std::make_unique<int>(7)), 7);
}

}  // namespace
}  // namespace troupe::function_ref_test
