// Names that programs give to their work, as recordings contain them.

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/trace/temporary_folder.hpp"
#include "tests/value_of.hpp"
#include "trace/record/names.hpp"
#include "trace/record/recorder.hpp"
#include "trace/record/recording.hpp"

namespace troupe::trace::given_names_test {
namespace {

std::unique_ptr<recorder> start(const temporary_folder& in) {
  recorder::options how;
  how.folder = in.path();
  how.ring_bytes = std::uint64_t{1} << 20;
  auto made = recorder::start(how);
  EXPECT_TRUE(made) << made.error().message;
  (*made)->set_run(7, 0, 0);
  return std::move(*made);
}

TEST(GivenNames, AreReadBackAndTheSameInAllProcesses) {
  const temporary_folder folder;
  std::uint16_t push = 0;
  {
    const auto one = start(folder);
    const auto other = start(folder);
    push = one->number_of("push");
    EXPECT_GE(push, given_names_begin);
    EXPECT_LT(push, given_names_end);
    EXPECT_EQ(one->number_of("push"), push);
    EXPECT_NE(one->number_of("pull"), push);
    EXPECT_EQ(other->number_of("push"), push) << "names are numbered by what they say, not by their order";
    one->finish(false);
    other->finish(false);
  }
  sources from;
  from.paths = {folder.path()};
  const auto read = value_of(read_recording(from));
  EXPECT_EQ(read.range_text(static_cast<range_name>(push)), "push");
  EXPECT_EQ(read.type_name(push), "push");
  EXPECT_EQ(read.range_text(range_name::apply), "apply");
}

TEST(GivenNames, AreBoundedAndOneLine) {
  const temporary_folder folder;
  const auto one = start(folder);
  std::set<std::uint16_t> numbers;
  for (int i = 0; i < 1000; ++i) numbers.insert(one->number_of("a name that a program gives " + std::to_string(i)));
  EXPECT_EQ(numbers.size(), 1000U);
  EXPECT_EQ(one->number_of("beyond"), one->number_of("also beyond"));
  one->finish(false);
  sources from;
  from.paths = {folder.path()};
  const auto read = value_of(read_recording(from));
  EXPECT_EQ(read.type_name(one->number_of("beyond")), "more");
  EXPECT_EQ(read.type_name(*numbers.begin()).rfind("a name that", 0), 0U);
}

}  // namespace
}  // namespace troupe::trace::given_names_test
