#include "model/text.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "model/job.hpp"

namespace troupe {

namespace {

// The fewest insertions, deletions, replacements and swaps of neighbours, each place touched once (optimal string
// alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string nearest(const std::string& name, const std::vector<std::string>& candidates) {
  // A name is short; of a long text the beginning decides, at bounded cost.
  const std::string_view beginning = std::string_view(name).substr(0, 64);
  const auto best = std::ranges::min_element(
      candidates, {}, [beginning](const std::string& candidate) { return edit_distance(beginning, candidate); });
  return best == candidates.end() ? std::string() : *best;
}

std::string printable(std::string_view text, std::size_t limit) { return text.empty() ? "''" : harmless(text, limit); }

std::string printable_path(std::string_view path) { return printable(path, 4096); }

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string alternatives(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : " or ";
    text += names[i];
  }
  return text;
}

}  // namespace troupe
