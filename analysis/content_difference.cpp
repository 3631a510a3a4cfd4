#include "analysis/content_difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace troupe::analysis {

namespace {

std::string shape_of(const trace::content_part& part) {
  return fmt::format("{} {} x {}", part.type, part.rows, part.cols);
}

bool same_shape(const trace::content_part& a, const trace::content_part& b) {
  return a.name == b.name && std::tie(a.type, a.rows, a.cols) == std::tie(b.type, b.rows, b.cols);
}

}  // namespace

std::string compare_parts(const trace::content& a, const trace::content& b, std::string_view in_a,
                          std::string_view in_b) {
  const std::size_t both = std::min(a.parts.size(), b.parts.size());
  std::string words;
  std::size_t more = std::max(a.parts.size(), b.parts.size()) - both;
  for (std::size_t i = 0; i < both; ++i) {
    const trace::content_part& of_a = a.parts[i];
    const trace::content_part& of_b = b.parts[i];
    if (same_shape(of_a, of_b) && of_a.digest == of_b.digest) continue;
    if (!words.empty()) {
      ++more;
    } else if (of_a.name != of_b.name) {
      words = fmt::format("{} {} is {} {}", of_a.name, in_a, of_b.name, in_b);
    } else if (!same_shape(of_a, of_b)) {
      words = fmt::format("{} differs ({} {}, {} {})", of_a.name, shape_of(of_a), in_a, shape_of(of_b), in_b);
    } else {
      words =
          fmt::format("{} differs (digest {:016x} {}, {:016x} {})", of_a.name, of_a.digest, in_a, of_b.digest, in_b);
    }
  }
  if (words.empty() && more > 0) {
    const bool a_has = a.parts.size() > both;
    words = fmt::format("{} is only {}", (a_has ? a : b).parts[both].name, a_has ? in_a : in_b);
    --more;
  }
  if (more > 0) words += fmt::format(", and so do {} more of its parts", more);
  return words;
}

}  // namespace troupe::analysis
