// The part of a file that people read: the comments and literals of code, or a whole document.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::tidy_test {

/// Text with single spaces for all white space, so that a phrase is found where a line wraps. A line feed stands for
/// code, or for the end of a paragraph.
class prose {
 public:
  /// The comments and the string literals of C++, CUDA and JavaScript. Neighbouring comments or literals are one text.
  static prose of_code(const std::string& content);
  static prose of_document(const std::string& content);

  /// Returns the lines, counted from 1, at which `phrase` begins: as a whole word or several, also with a capital
  /// letter.
  std::vector<std::size_t> lines_with(std::string_view phrase) const;

 private:
  friend class code_reader;
  void put(char c, std::size_t line);
  void put_break(std::size_t line);

  std::string text_;
  std::vector<std::size_t> lines_;  // of each character
};

}  // namespace troupe::tidy_test
