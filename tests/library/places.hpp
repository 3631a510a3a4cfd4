// Source locations in errors, such as ` (group_errors_test.cpp:14)`.

#pragma once

#include <regex>
#include <string>

namespace troupe::test {

/// Returns a text without its source locations.
inline std::string without_places(const std::string& text) {
  static const std::regex place(R"( \([a-z_]+\.cpp:[0-9]+\))");
  return std::regex_replace(text, place, "");
}

/// Returns the location of a line of a test file, as errors contain it.
inline std::string place_at(const std::string& file, int line) {
  return " (" + file + ":" + std::to_string(line) + ")";
}

}  // namespace troupe::test
