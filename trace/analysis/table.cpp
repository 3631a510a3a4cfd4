#include "trace/analysis/table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.hpp"

namespace troupe::analysis {

table::table(std::vector<std::string> headings, std::string_view alignment)
    : alignment_(alignment), rows_{std::move(headings)} {}

std::string table::text(std::size_t limit) const {
  const std::size_t shown = std::min(limit, rows());
  std::vector<std::size_t> widths(alignment_.size());
  for (std::size_t row = 0; row <= shown; ++row)
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], rows_[row][i].size());
  std::string text;
  for (std::size_t row = 0; row <= shown; ++row) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i)
      line += alignment_[i] == 'l' ? fmt::format("  {:<{}}", rows_[row][i], widths[i])
                                   : fmt::format("  {:>{}}", rows_[row][i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  if (shown < rows()) text += fmt::format("  ... and {} more\n", count_text(rows() - shown));
  return text;
}

}  // namespace troupe::analysis
