// Exceptions as text for users.

#include "base/exception_text.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <stdexcept>

namespace troupe::exception_text_test {
namespace {

template <class Function>
std::string text_thrown_by(Function run) {
  try {
    run();
  } catch (const std::exception& e) {
    return text_of(e);
  }
  return "no exception";
}

TEST(ExceptionText, IsTheExceptionsOwn) {
  EXPECT_EQ(text_thrown_by([] { throw std::runtime_error("the power has failed"); }), "the power has failed");
}

TEST(ExceptionText, SaysForWhatMemoryLacks) {
  const auto lacks = [] { throw std::bad_alloc(); };
  EXPECT_EQ(text_thrown_by(lacks), "out of memory");
  const auto for_table = [&] { with_memory_for([] { return "table 2 [10, 4]"; }, lacks); };
  EXPECT_EQ(text_thrown_by(for_table), "out of memory for table 2 [10, 4]");
  const auto for_more = [&] { with_memory_for([] { return "all tables"; }, for_table); };
  EXPECT_EQ(text_thrown_by(for_more), "out of memory for table 2 [10, 4]") << "the innermost knows best";
  EXPECT_EQ(with_memory_for([] { return "nothing"; }, [] { return 3; }), 3);
}

TEST(ExceptionText, HasNoSourceFilesOfBoost) {
  const std::string of_parser = text_thrown_by([] { boost::json::parse("{\xff"); });
  EXPECT_EQ(of_parser.find(".hpp"), std::string::npos) << of_parser;
  EXPECT_EQ(of_parser.find("boost"), std::string::npos) << of_parser;
  EXPECT_TRUE(of_parser.starts_with("json: ")) << of_parser;
  const std::string of_value = text_thrown_by([] { (void)boost::json::value(3).as_object(); });
  EXPECT_EQ(of_value.find(".hpp"), std::string::npos) << of_value;
}

}  // namespace
}  // namespace troupe::exception_text_test
