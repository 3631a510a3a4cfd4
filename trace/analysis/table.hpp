// Text in columns for a terminal.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::analysis {

class table {
 public:
  /// `alignment` has an 'l' (left) or 'r' (right) for each column.
  table(std::vector<std::string> headings, std::string_view alignment);

  /// Requires: as many cells as headings.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::size_t rows() const { return rows_.size() - 1; }

  /// The headings and up to `limit` rows, indented by two blanks, then a line with the number of rows left out, if any.
  std::string text(std::size_t limit = SIZE_MAX) const;

 private:
  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace troupe::analysis
