#include "base/advice.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace troupe {

namespace {

std::function<bool(const std::string&)>& known_options() {
  static std::function<bool(const std::string&)> of_this_program;
  return of_this_program;
}

/// Returns the known ones among some options, each with its value, if any: `--rows, --device cpu`.
std::string known_of(std::string_view options) {
  std::string kept;
  while (!options.empty()) {
    const std::string_view one = options.substr(0, options.find(", "));
    options.remove_prefix(std::min(options.size(), one.size() + 2));
    if (known_options()(std::string(one.substr(0, one.find(' '))))) kept.append(kept.empty() ? "" : ", ").append(one);
  }
  return kept;
}

}  // namespace

void advise_options(std::function<bool(const std::string&)> is_known) { known_options() = std::move(is_known); }

std::string for_this_program(std::string text) {
  if (!known_options()) return text;
  constexpr std::string_view begin = " (--";
  for (std::size_t at = 0; (at = text.find(begin, at)) != text.npos;) {
    const std::size_t first = at + 2;
    const std::size_t end = text.find(')', first);
    if (end == text.npos) break;
    const std::string kept = known_of(std::string_view(text).substr(first, end - first));
    const std::string instead = kept.empty() ? "" : " (" + kept + ")";
    text.replace(at, end + 1 - at, instead);
    at += instead.size();
  }
  return text;
}

}  // namespace troupe
