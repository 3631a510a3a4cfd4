// The fields of one line of a CSV file, by RFC 4180: a field may stand in quotes, and a quote within these is doubled.
// A quote in a field that does not begin with one is a character like any other. A field cannot contain a line break.

#pragma once

#include <string>
#include <string_view>

namespace troupe::model {

class csv_fields {
 public:
  /// `line_reader::padding` bytes behind `line` may be read.
  csv_fields(std::string_view line, char separator)
      : next_(line.data()), end_(line.data() + line.size()), separator_(separator) {}

  /// The next field without its quotes, valid until the next call. False after the last one, and if the quotes of this
  /// one are wrong.
  bool next(std::string_view& field);

  /// What is wrong with the quotes of the field that `next` refused; null if nothing is.
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
