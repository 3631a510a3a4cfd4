// Compares introductions. Separate from making them, so that fuzzing needs no CAF network.

#include <fmt/format.h>

#include "nodes/handshake_info.hpp"

namespace troupe::nodes {

std::optional<std::string> first_disagreement(const links::hello& mine, const links::hello& theirs,
                                              const std::string& their_name) {
  bool common = false;
  for (const auto& [name, value] : mine) {
    common = common || name == first_common_item;
    if (!common) continue;
    const auto other = links::find_item(theirs, name);
    if (other == value) continue;
    return fmt::format("{} is {} here and {} at {}; the same build is needed everywhere", name, value,
                       other ? std::string(*other) : "unknown", their_name);
  }
  if (theirs.size() > mine.size())
    return fmt::format("{} is {} at {} and unknown here; the same build is needed everywhere", theirs.back().first,
                       theirs.back().second, their_name);
  return std::nullopt;
}

}  // namespace troupe::nodes
