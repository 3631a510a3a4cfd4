#include "model/files/csv_fields.hpp"

#include "model/files/line_reader.hpp"

namespace troupe::model {

bool csv_fields::next(std::string_view& field) {
  if (done_) return false;
  if (next_ < end_ && *next_ == '"') return next_quoted(field);
  const char* const stop = field_end(next_, end_, separator_);
  field = {next_, static_cast<std::size_t>(stop - next_)};
  done_ = stop == end_;
  next_ = stop + 1;
  return true;
}

bool csv_fields::next_quoted(std::string_view& field) {
  const char* const begin = next_ + 1;
  const char* stop = field_end(begin, end_, '"');
  if (stop + 1 < end_ && stop[1] == '"') {
    // Only a field with quotes inside is copied.
    unquoted_.assign(begin, stop);
    while (stop + 1 < end_ && stop[1] == '"') {
      const char* const rest = stop + 1;
      stop = field_end(rest + 1, end_, '"');
      unquoted_.append(rest, stop);
    }
    field = unquoted_;
  } else {
    field = {begin, static_cast<std::size_t>(stop - begin)};
  }
  done_ = stop + 1 >= end_;
  next_ = stop + 2;
  if (stop >= end_)
    wrong_ = "the quotes do not end on this line: must be closed, without a line break within them";
  else if (!done_ && stop[1] != separator_)
    wrong_ = "text behind the closing quote: must be the separator, or a quote within quotes doubled";
  if (wrong_ != nullptr) done_ = true;
  return wrong_ == nullptr;
}

}  // namespace troupe::model
