// The fields of a line of a CSV file, by RFC 4180: a field may be quoted, with doubled quotes inside. In a field that
// does not begin with a quote, quotes are ordinary characters. A field cannot contain a line break.

#pragma once

#include <string>
#include <string_view>

namespace troupe::model {

class csv_fields {
 public:
  /// Requires: `line_reader::padding` bytes after `line` are readable.
  csv_fields(std::string_view line, char separator)
      : next_(line.data()), end_(line.data() + line.size()), separator_(separator) {}

  /// Returns the next field without its quotes, valid until the next call; false after the last field, or if the quotes
  /// are wrong.
  bool next(std::string_view& field);

  /// Returns the error in the quotes of the refused field; null after the last field.
  const char* wrong() const { return wrong_; }

 private:
  bool next_quoted(std::string_view& field);

  const char* next_;
  const char* end_;
  char separator_;
  bool done_ = false;
  const char* wrong_ = nullptr;
  std::string unquoted_;
};

}  // namespace troupe::model
