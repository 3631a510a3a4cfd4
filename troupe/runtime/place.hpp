// The location of a call in the user's code, for errors. The library's own calls have none.

#pragma once

#include <string>
#include <string_view>

#include "troupe/source_location.hpp"

namespace troupe::runtime {

/// Returns `train.cpp:14`, without folders; empty if the library calls.
inline std::string text_of(const source_location& at) {
  if (at.line() == 0) return "";
  const std::string_view file = at.file_name();
  return std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(at.line());
}

/// The suffix for the text of a call: ` (train.cpp:14)`, or nothing.
inline std::string in_brackets(const std::string& place) { return place.empty() ? "" : " (" + place + ")"; }
inline std::string in_brackets(const source_location& at) { return in_brackets(text_of(at)); }

}  // namespace troupe::runtime
