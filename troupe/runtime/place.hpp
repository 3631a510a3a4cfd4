// Where in the user's code a call is, for errors. A call of the library's own has no place.

#pragma once

#include <string>
#include <string_view>

#include "troupe/source_location.hpp"

namespace troupe::runtime {

/// `train.cpp:14`, without folders; empty: the library calls.
inline std::string text_of(const source_location& at) {
  if (at.line() == 0) return "";
  const std::string_view file = at.file_name();
  return std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(at.line());
}

/// What stands behind the text of a call: ` (train.cpp:14)`, or nothing.
inline std::string in_brackets(const std::string& place) { return place.empty() ? "" : " (" + place + ")"; }
inline std::string in_brackets(const source_location& at) { return in_brackets(text_of(at)); }

}  // namespace troupe::runtime
