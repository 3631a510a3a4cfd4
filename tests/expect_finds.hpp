// Checks that a text contains a part, for tests of errors and output.

#pragma once

#include <gtest/gtest.h>

#include <string_view>

namespace troupe {

inline testing::AssertionResult finds(const char* /*text_source*/, const char* /*part_source*/, std::string_view text,
                                      std::string_view part) {
  if (text.find(part) != std::string_view::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "there is no\n  " << part << "\nin\n" << text;
}

}  // namespace troupe

/// Expects that `text` contains `part`; shows both on failure.
#define EXPECT_FINDS(text, part) EXPECT_PRED_FORMAT2(::troupe::finds, text, part)
