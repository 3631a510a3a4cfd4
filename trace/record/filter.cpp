#include "trace/record/filter.hpp"

#include <algorithm>

#include "base/number.hpp"

namespace troupe::trace {

namespace {

bool any_matches(const std::vector<std::string>& patterns, std::string_view text) {
  return patterns.empty() ||
         std::ranges::any_of(patterns, [text](const std::string& pattern) { return matches(pattern, text); });
}

bool read_count(std::string_view text, filter& to) {
  const auto count = parse_number<std::uint64_t>(text);
  to.count = count.value_or(to.count);
  return count.has_value();
}

bool read_steps(std::string_view text, filter& to) {
  const std::size_t dash = text.find('-');
  const auto first = parse_number<std::uint64_t>(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_number<std::uint64_t>(text.substr(dash + 1));
  if (!first || !last) return false;
  to.first_step = *first;
  to.last_step = *last;
  return *first <= *last;
}

}  // namespace

/// A star that matched too little is retried with one more character; earlier stars never need a retry, so the time is
/// at most the product of both lengths.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0;
  std::size_t star = pattern.npos, taken = 0;  // the last star, and the end of the text it covers
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

result<filter> parse_filter(std::string_view text) {
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
      is_right = read_count(value, made);
    else
      return bad_input("'{}': an item is actor=PATTERN, type=PATTERN, steps=FIRST-LAST or count=N", item);
    if (!is_right)
      return bad_input("'{}': {}", item,
                       name == "steps"   ? "must be steps=FIRST-LAST, two whole numbers"
                       : name == "count" ? "must be count=N, a whole number"
                                         : "needs a pattern after the equals sign");
  }
  return made;
}

}  // namespace troupe::trace
