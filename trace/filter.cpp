#include "trace/filter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace troupe::trace {

namespace {

bool any_matches(const std::vector<std::string>& patterns, std::string_view text) {
  return patterns.empty() ||
         std::ranges::any_of(patterns, [text](const std::string& pattern) { return matches(pattern, text); });
}

bool read_number(std::string_view text, std::uint64_t& to) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), to);
  return code == std::errc() && end == text.data() + text.size();
}

bool read_steps(std::string_view text, filter& to) {
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) {
    if (!read_number(text, to.first_step)) return false;
    to.last_step = to.first_step;
    return true;
  }
  return read_number(text.substr(0, dash), to.first_step) && read_number(text.substr(dash + 1), to.last_step) &&
         to.first_step <= to.last_step;
}

}  // namespace

/// A star that takes too little is retried with one more; earlier stars never need to be, so it takes no longer than
/// both lengths multiplied.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0;
  std::size_t star = pattern.npos, taken = 0;  // the last star, and up to where of the text it reaches
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != pattern.npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

bool filter::takes_actor(std::string_view name) const { return any_matches(actors, name); }
bool filter::takes_type(std::string_view name) const { return any_matches(types, name); }
bool filter::takes_all() const {
  return actors.empty() && types.empty() && first_step == 0 && last_step == UINT64_MAX && count == UINT64_MAX;
}

tl::expected<filter, std::string> parse_filter(std::string_view text) {
  filter made;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    const std::string_view name = item.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? "" : item.substr(equals + 1);
    bool is_right = !value.empty();
    if (name == "actor")
      made.actors.emplace_back(value);
    else if (name == "type")
      made.types.emplace_back(value);
    else if (name == "steps")
      is_right = read_steps(value, made);
    else if (name == "count")
      is_right = read_number(value, made.count);
    else
      return tl::unexpected(
          fmt::format("'{}': an item is actor=PATTERN, type=PATTERN, steps=FIRST-LAST or count=N", item));
    if (!is_right)
      return tl::unexpected(fmt::format("'{}': {}", item,
                                        name == "steps"   ? "must be steps=FIRST-LAST, two whole numbers"
                                        : name == "count" ? "must be count=N, a whole number"
                                                          : "needs a pattern after the equals sign"));
  }
  return made;
}

}  // namespace troupe::trace
