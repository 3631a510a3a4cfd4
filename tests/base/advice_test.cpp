// Options in error texts: those that the program has, and those that it lacks.

#include "base/advice.hpp"

#include <gtest/gtest.h>

namespace troupe::advice_test {
namespace {

class Advice : public testing::Test {
 protected:
  ~Advice() override { advise_options(nullptr); }
};

constexpr const char* lack =
    "out of memory; use smaller tables (--rows, --dim), smaller batches (--batch-size) or more --servers";

TEST_F(Advice, NamesAllOptionsWhereNothingElseIsSaid) { EXPECT_EQ(for_this_program(lack), lack); }

TEST_F(Advice, LeavesOutOptionsThatTheProgramLacks) {
  advise_options([](const std::string& name) { return name == "--servers"; });
  EXPECT_EQ(for_this_program(lack), "out of memory; use smaller tables, smaller batches or more --servers");
  advise_options([](const std::string& name) { return name == "--dim"; });
  EXPECT_EQ(for_this_program(lack), "out of memory; use smaller tables (--dim), smaller batches or more --servers");
}

TEST_F(Advice, KnowsOptionsWithTheirValues) {
  advise_options([](const std::string& name) { return name == "--trace"; });
  EXPECT_EQ(for_this_program("nothing is recorded (--trace off)"), "nothing is recorded (--trace off)");
  EXPECT_EQ(for_this_program("products in f32 (--matmul-precision f32)"), "products in f32");
}

TEST_F(Advice, LeavesOtherBracketsAlone) {
  advise_options([](const std::string&) { return false; });
  for (const char* text : {"sample 3 (number 13 of 32)", "a text (--rows without an end", "x(--rows)", ""})
    EXPECT_EQ(for_this_program(text), text);
}

}  // namespace
}  // namespace troupe::advice_test
