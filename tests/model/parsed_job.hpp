// Parses settings into a job, or returns the error.

#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/job.hpp"

namespace troupe::model {

inline job parsed(const std::vector<setting>& given) {
  const auto made = parse_job(given);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  return made.value_or(job{});
}

inline std::string refusal(const std::vector<setting>& given) {
  const auto made = parse_job(given);
  EXPECT_FALSE(made.has_value()) << given.back().first << " " << given.back().second;
  if (made) return "";
  EXPECT_EQ(made.error().kind, fault_kind::input);
  EXPECT_EQ(made.error().message.find('\n'), std::string::npos);
  return made.error().message;
}

}  // namespace troupe::model
