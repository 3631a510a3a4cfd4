// Errors as text for users.

#include "protocol/errors.hpp"

#include <gtest/gtest.h>

#include <caf/all.hpp>

#include "base/advice.hpp"

namespace troupe::protocol::errors_test {
namespace {

TEST(Errors, OfCafAreToldInPlainEnglish) {
  constexpr auto last_sec = static_cast<std::uint8_t>(caf::sec::action_reschedule_failed);
  constexpr auto last_exit = static_cast<std::uint8_t>(caf::exit_reason::unreachable);
  const auto check = [](const caf::error& error) {
    const std::string text = describe(error);
    EXPECT_FALSE(text.empty());
    EXPECT_EQ(text.find("::"), std::string::npos) << text;
    EXPECT_EQ(text.find('_'), std::string::npos) << text;
  };
  for (std::uint8_t code = 1; code <= last_sec; ++code) check(caf::make_error(static_cast<caf::sec>(code)));
  for (std::uint8_t code = 1; code <= last_exit; ++code) check(caf::make_error(static_cast<caf::exit_reason>(code)));
  EXPECT_EQ(describe(caf::sec::request_timeout), "no answer came in time");
  EXPECT_EQ(describe(caf::sec::request_receiver_down), "the receiver has ended before it answered");
}

TEST(Errors, AdviseOnlyOptionsOfTheProgram) {
  const auto error = make_failure(errc::out_of_memory, "out of memory; use smaller tables (--rows)");
  EXPECT_EQ(describe(error), "out of memory; use smaller tables (--rows)");
  advise_options([](const std::string&) { return false; });
  EXPECT_EQ(describe(error), "out of memory; use smaller tables");
  advise_options(nullptr);
}

}  // namespace
}  // namespace troupe::protocol::errors_test
