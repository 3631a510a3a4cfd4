// Names that programs add, for job files.

#pragma once

#include <algorithm>
#include <cctype>
#include <string>

namespace troupe::nn {

/// Lower-case letters, digits and `separator`, a letter first.
inline bool is_added_name(const std::string& name, char separator) {
  return !name.empty() && std::islower(static_cast<unsigned char>(name.front())) != 0 &&
         std::ranges::all_of(name, [=](unsigned char c) {
           return std::islower(c) != 0 || std::isdigit(c) != 0 || c == static_cast<unsigned char>(separator);
         });
}

}  // namespace troupe::nn
