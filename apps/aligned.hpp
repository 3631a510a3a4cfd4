// Rows of a table as text.

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace troupe::apps {

/// Makes each column as wide as its widest text, with two spaces between them. From column `first_number` on, texts are
/// right-aligned.
template <std::size_t Columns>
std::string aligned(const std::vector<std::array<std::string, Columns>>& rows, std::size_t first_number = Columns) {
  std::array<std::size_t, Columns> widths{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < Columns; ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < Columns; ++i)
      line +=
          i < first_number ? fmt::format("{:<{}}  ", row[i], widths[i]) : fmt::format("{:>{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace troupe::apps
