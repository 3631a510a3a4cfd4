// CSV files whose columns the job describes.

#include <fmt/format.h>

#include <algorithm>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "base/number.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "model/datasets.hpp"
#include "model/files/byte_source.hpp"
#include "model/files/category_hash.hpp"
#include "model/files/csv_columns.hpp"
#include "model/files/csv_fields.hpp"
#include "model/files/line_reader.hpp"
#include "model/files/rows.hpp"
#include "model/hybrid.hpp"

namespace troupe::model {

namespace {

// Maps texts to rows of a table, by the column's vocabulary or by hashing.
class category_rows {
 public:
  explicit category_rows(const csv_column& column) : hash_(static_cast<std::uint64_t>(column.rows)) {
    for (const auto& text : column.vocabulary)
      vocabulary_.emplace(text, static_cast<std::uint32_t>(vocabulary_.size() + 1));
  }

  std::uint32_t row_of(std::string_view text) const {
    if (vocabulary_.empty()) return hash_.row_of(text);
    const auto found = vocabulary_.find(text);
    return found == vocabulary_.end() ? 0 : found->second;
  }

 private:
  struct text_hash {
    using is_transparent = void;
    using is_avalanching = void;
    std::size_t operator()(std::string_view text) const { return XXH3_64bits(text.data(), text.size()); }
  };

  category_hash hash_;
  boost::unordered_flat_map<std::string, std::uint32_t, text_hash, std::equal_to<>> vocabulary_;
};

// A column of the file.
struct file_column {
  csv_column what;
  // For a label, numeric or categorical column: the index of its word in the record.
  std::size_t word = 0;
  std::optional<category_rows> rows;
};

class csv final : public row_format {
 public:
  // `columns`: in the file's order; `described`: the column of each description.
  csv(const job& job, const std::vector<csv_column>& descriptions, std::vector<file_column> columns,
      const std::vector<std::size_t>& described)
      : columns_(std::move(columns)),
        separator_(job.separator),
        header_lines_(job.header ? 1 : 0),
        loss_(job.loss),
        classes_(job.classes) {
    spec_.outputs = outputs_for(loss_, classes_);
    spec_.binary_targets = loss_ == loss_kind::bce_logits || (loss_ == loss_kind::cross_entropy && classes_ == 2);
    // Dense features and tables are in the order of the descriptions; bags are in the file's order.
    for (std::size_t i = 0; i < descriptions.size(); ++i)
      if (descriptions[i].kind == csv_kind::numeric) columns_[described[i]].word = 1 + layout_.dense++;
    for (std::size_t i = 0; i < descriptions.size(); ++i) {
      const auto& description = descriptions[i];
      if (!description.is_table()) continue;
      file_column& column = columns_[described[i]];
      column.rows.emplace(description);
      const bool is_bag = description.kind == csv_kind::multi;
      spec_.tables.push_back({description.rows, job.dim, is_bag ? description.mode : kernels::pooling::sum, false});
      if (is_bag) {
        layout_.tables.push_back({true, bags_before(described[i])});
        ++layout_.bags;
      } else {
        column.word = 1 + layout_.dense + layout_.singles;
        layout_.tables.push_back({false, layout_.singles++});
      }
    }
    spec_.dense_features = layout_.dense;
    ids_ = ids_of(job, spec_);
  }

  const row_layout& layout() const override { return layout_; }
  const data_spec& spec() const override { return spec_; }

  std::uint64_t header_lines() const override { return header_lines_; }

  std::optional<std::string> parse(std::string_view line, std::uint32_t* record, row_bags& to) const override {
    csv_fields fields(line, separator_);
    std::string_view field;
    std::size_t count = 0;
    for (; fields.next(field); ++count) {
      if (count == columns_.size()) return wrong_count(line);
      if (auto refused = read_field(columns_[count], field, record, to))
        return fmt::format("{}: {}: must be {}", text_of(count), printable(field), *refused);
    }
    if (fields.wrong() != nullptr) return fmt::format("{}: {}", text_of(count), fields.wrong());
    if (count < columns_.size()) return wrong_count(line);
    return std::nullopt;
  }

  std::optional<std::string> check(std::string_view line, std::uint64_t& bag_values) const override {
    std::size_t count = 0;
    if (layout_.bags == 0 && std::memchr(line.data(), '"', line.size()) == nullptr) {
      count = 1 + count_of(line, separator_);
    } else {
      csv_fields fields(line, separator_);
      std::string_view field;
      for (; fields.next(field); ++count) {
        if (count >= columns_.size() || columns_[count].what.kind != csv_kind::multi || field.empty()) continue;
        bag_values += 1 + count_of(field, columns_[count].what.separator);
      }
      if (fields.wrong() != nullptr) return fmt::format("{}: {}", text_of(count), fields.wrong());
    }
    return count == columns_.size() ? std::nullopt : std::optional(wrong_count(line));
  }

 private:
  std::size_t bags_before(std::size_t column) const {
    const auto end = columns_.begin() + static_cast<std::ptrdiff_t>(column);
    return static_cast<std::size_t>(
        std::count_if(columns_.begin(), end, [](const file_column& one) { return one.what.kind == csv_kind::multi; }));
  }

  std::string text_of(std::size_t column) const {
    return column_text(column + 1, column < columns_.size() ? columns_[column].what.name : "");
  }

  std::string wrong_count(std::string_view line) const {
    csv_fields fields(line, separator_);
    std::string_view field;
    std::size_t count = 0;
    while (fields.next(field)) ++count;
    return fmt::format("{} columns in {}: must be {}, with {} between them", count, printable(line), columns_.size(),
                       separator_ == '\t' ? "tabs" : fmt::format("'{}'", separator_));
  }

  // Returns what a wrong field must be; null if the field is right.
  std::optional<std::string> read_field(const file_column& column, std::string_view field, std::uint32_t* record,
                                        row_bags& to) const {
    switch (column.what.kind) {
      case csv_kind::label:
        return read_label(field, record[0]);
      case csv_kind::numeric:
        return read_numeric(column, field, record[column.word]);
      case csv_kind::categorical:
        record[column.word] = column.rows->row_of(field);
        return std::nullopt;
      case csv_kind::multi:
        read_bag(column, field, to);
        return std::nullopt;
      case csv_kind::ignore:
        break;
    }
    return std::nullopt;
  }

  std::optional<std::string> read_label(std::string_view field, std::uint32_t& to) const {
    const auto number = parse_number<double>(field);
    auto value = static_cast<float>(number.value_or(0));
    switch (loss_) {
      case loss_kind::bce_logits:
        if (!number || (*number != 0 && *number != 1)) return "0 or 1";
        break;
      case loss_kind::cross_entropy:
        if (!number || !(*number >= 0 && *number < static_cast<double>(classes_)) || std::floor(*number) != *number)
          return fmt::format("a whole number between 0 and {}, the class", classes_ - 1);
        break;
      case loss_kind::mse:
        if (auto refused = read_finite(field, false, value)) return refused;
        break;
    }
    std::memcpy(&to, &value, sizeof(value));
    return std::nullopt;
  }

  // The number itself must be finite, whatever the transform would turn it into.
  static std::optional<std::string> read_finite(std::string_view field, bool log1p, float& to) {
    const auto number = parse_number<double>(field);
    const bool has_digits = field.find_first_of("0123456789") != field.npos;  // else infinity or nan by name
    if (!number || std::isnan(*number) || (std::isinf(*number) && !has_digits))
      return "a finite number, without blanks around it";
    to = static_cast<float>(log1p ? std::log1p(std::max(*number, 0.0)) : *number);
    if (!log1p && !std::isfinite(to))
      return fmt::format("between {0:.8g} and {1:.8g}, the limits of float32", -FLT_MAX, FLT_MAX);
    if (std::isinf(*number))
      return fmt::format("between {0:.17g} and {1:.17g}, the limits of float64", -DBL_MAX, DBL_MAX);
    return std::nullopt;
  }

  std::optional<std::string> read_numeric(const file_column& column, std::string_view field, std::uint32_t& to) const {
    float value = 0;
    if (!field.empty())
      if (auto refused = read_finite(field, column.what.log1p, value)) return *refused + ", or empty";
    if (ids_ && !ids_->has(value)) return ids_->text();
    std::memcpy(&to, &value, sizeof(value));
    return std::nullopt;
  }

  // An empty field is an empty bag; an empty value among others is a missing value.
  static void read_bag(const file_column& column, std::string_view field, row_bags& to) {
    const char* next = field.data();
    const char* const end = next + field.size();
    while (!field.empty() && next <= end) {
      const char* const stop = std::find(next, end, column.what.separator);
      to.rows.push_back(column.rows->row_of({next, static_cast<std::size_t>(stop - next)}));
      next = stop + 1;
    }
    to.begin.push_back(to.rows.size());
  }

  row_layout layout_;
  data_spec spec_;
  std::optional<nn::id_range> ids_;  ///< the ids that the network reads from the numeric columns
  std::vector<file_column> columns_;
  char separator_;
  std::uint64_t header_lines_;
  loss_kind loss_;
  std::size_t classes_;
};

// The names of the columns, and the number of the header's line.
struct csv_header {
  std::vector<std::string> names;
  std::uint64_t line = 0;
};

result<csv_header> read_header(const std::shared_ptr<const input_file>& file, char separator) {
  TROUPE_TRY(how, compression_of(*file));
  const std::string& name = file->name();
  line_reader lines(open_source(file, how, 0), name);
  TROUPE_TRY(line, lines.next());
  if (!line) return bad_input("{}: no rows: must have at least one", name);
  csv_fields fields(*line, separator);
  csv_header made{{}, lines.line()};
  std::string_view field;
  while (fields.next(field)) made.names.emplace_back(field);
  if (fields.wrong() == nullptr) return made;
  return bad_input("{} line {}: column {}: {}", name, made.line, made.names.size() + 1, fields.wrong());
}

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

// Describes that a header lacks a name: the nearest name, or one that differs only in blanks around it.
std::string no_such_column(const std::string& name, const std::vector<std::string>& names) {
  for (const std::string& one : names)
    if (without_blanks(one) == without_blanks(name))
      return fmt::format("no column is called {}, but '{}' with blanks around it, which count; write it the same here",
                         printable(name), printable(one));
  return fmt::format("no column is called {}; the nearest is {}", printable(name), printable(nearest(name, names)));
}

// Returns each description's column number, found by name in the header.
result<std::vector<std::size_t>> find_columns(const std::vector<csv_column>& descriptions, const csv_header& header,
                                              const std::string& file) {
  const std::vector<std::string>& names = header.names;
  std::vector<std::size_t> found;
  for (const auto& description : descriptions) {
    const auto first = std::ranges::find(names, description.name);
    if (first == names.end())
      return bad_input("{} line {}: {}", file, header.line, no_such_column(description.name, names));
    const auto second = std::find(first + 1, names.end(), description.name);
    if (second != names.end())
      return bad_input("{} line {}: columns {} and {} are both called {}", file, header.line, first - names.begin() + 1,
                       second - names.begin() + 1, printable(description.name));
    found.push_back(static_cast<std::size_t>(first - names.begin()));
  }
  return found;
}

}  // namespace

result<std::shared_ptr<const row_format>> csv_format(const job& job, const std::shared_ptr<const input_file>& file) {
  const auto& descriptions = job.parsed_columns;
  std::vector<file_column> columns(descriptions.size());
  std::vector<std::size_t> described;
  if (job.header) {
    TROUPE_TRY(header, read_header(file, job.separator));
    TROUPE_SET(described, find_columns(descriptions, header, file->name()));
    columns.resize(header.names.size());
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i].what.name = header.names[i];
  } else {
    for (std::size_t i = 0; i < descriptions.size(); ++i) described.push_back(i);
  }
  for (std::size_t i = 0; i < descriptions.size(); ++i) columns[described[i]].what = descriptions[i];
  auto made = std::make_shared<const csv>(job, descriptions, std::move(columns), described);
  const auto other = std::ranges::find_if(descriptions, &csv_column::log1p);
  if (ids_of(job, made->spec()) && other != descriptions.end())
    return bad_input("--columns: {}: transform log1p: makes no ids, which the network takes; leave it out",
                     column_text(static_cast<std::size_t>(other - descriptions.begin()) + 1, other->name));
  return made;
}

}  // namespace troupe::model
