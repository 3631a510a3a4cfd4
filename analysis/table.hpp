// Columns for a terminal.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::analysis {

class table {
 public:
  /// Headings, and for each column whether it is aligned to the left ('l') or to the right ('r').
  table(std::vector<std::string> headings, std::string_view alignment);

  /// As many cells as there are headings.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::size_t rows() const { return rows_.size() - 1; }

  /// All rows, each line indented by two blanks; at most `limit` of them, and then how many there are more.
  std::string text(std::size_t limit = SIZE_MAX) const;

 private:
  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace troupe::analysis
