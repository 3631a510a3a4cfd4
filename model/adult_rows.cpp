#include <fmt/format.h>
#include <zlib.h>

#include <cmath>
#include <string>
#include <unordered_map>

#include "base/number.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "model/adult.hpp"

// model/adult_files.S
extern "C" const unsigned char troupe_adult_train[];
extern "C" const unsigned char troupe_adult_train_end[];
extern "C" const unsigned char troupe_adult_test[];
extern "C" const unsigned char troupe_adult_test_end[];

namespace troupe::model {

namespace {

constexpr std::size_t adult_columns = 15;

enum class column_kind : std::uint8_t { category, number, label };

struct column {
  const char* name;
  column_kind kind;
  /// Index among the categorical or numeric columns.
  std::size_t place;
};

constexpr std::array<column, adult_columns> layout{{
    {"age", column_kind::number, 0},
    {"workclass", column_kind::category, 0},
    {"fnlwgt", column_kind::number, 1},
    {"education", column_kind::category, 1},
    {"education-num", column_kind::number, 2},
    {"marital-status", column_kind::category, 2},
    {"occupation", column_kind::category, 3},
    {"relationship", column_kind::category, 4},
    {"race", column_kind::category, 5},
    {"sex", column_kind::category, 6},
    {"capital-gain", column_kind::number, 3},
    {"capital-loss", column_kind::number, 4},
    {"hours-per-week", column_kind::number, 5},
    {"native-country", column_kind::category, 7},
    {"label", column_kind::label, 0},
}};

using vocabulary = std::unordered_map<std::string_view, std::int32_t>;

// Reads one file. A training file extends the vocabularies, a test file does not.
class file_reader {
 public:
  file_reader(const char* file, std::array<vocabulary, adult_tables>& vocabularies, bool learn)
      : file_(file), vocabularies_(vocabularies), learn_(learn) {}

  // Numbers are log1p of the file's, not standardized yet.
  result<std::vector<adult_row>> read(std::string_view text) {
    while (!text.empty()) {
      ++line_;
      const auto end = text.find('\n');
      auto line = text.substr(0, end);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) {
        if (auto wrong = read_line(line)) return bad_input(std::move(*wrong));
      }
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    if (rows_.empty()) return bad_input("{}: no rows: must have at least one", file_);
    return std::move(rows_);
  }

 private:
  std::optional<std::string> read_line(std::string_view line) {
    const auto fields = split(line, ',');
    if (fields.size() != adult_columns)
      return fmt::format("{} line {}: {} columns in '{}': must be {}, with commas between them", file_, line_,
                         fields.size(), printable(line), adult_columns);
    adult_row& row = rows_.emplace_back();
    for (std::size_t i = 0; i < adult_columns; ++i) {
      auto field = fields[i];
      while (field.starts_with(' ')) field.remove_prefix(1);
      while (field.ends_with(' ')) field.remove_suffix(1);
      if (const char* limit = read_field(layout[i], field, row))
        return fmt::format("{} line {}, column {} ({}): {}: must be {}", file_, line_, i + 1, layout[i].name,
                           printable(field), limit);
    }
    return std::nullopt;
  }

  // Returns what a wrong field must be; null if the field is right.
  const char* read_field(const column& what, std::string_view field, adult_row& row) {
    switch (what.kind) {
      case column_kind::category:
        if (field.empty()) return "a name, or ? if it is unknown";
        row.categories[what.place] = row_of(vocabularies_[what.place], field);
        return nullptr;
      case column_kind::number: {
        const auto number = parse_number<std::uint32_t>(field);
        if (!number) return "a whole number between 0 and 4294967295";
        row.numbers[what.place] = static_cast<float>(std::log1p(static_cast<double>(*number)));
        return nullptr;
      }
      case column_kind::label:
        if (field != "<=50K" && field != ">50K") return "<=50K or >50K";
        row.above_50k = field == ">50K";
        return nullptr;
    }
    return nullptr;
  }

  std::int32_t row_of(vocabulary& known, std::string_view value) const {
    if (learn_) return known.try_emplace(value, static_cast<std::int32_t>(known.size()) + 1).first->second;
    const auto found = known.find(value);
    return found == known.end() ? 0 : found->second;
  }

  const char* file_;
  std::array<vocabulary, adult_tables>& vocabularies_;
  bool learn_;
  std::size_t line_ = 0;
  std::vector<adult_row> rows_;
};

// Standardizes a column of both files by the training file's mean and deviation.
void standardise(adult_data& data, std::size_t column) {
  const auto count = static_cast<double>(data.train.size());
  double mean = 0;
  for (const auto& row : data.train) mean += row.numbers[column];
  mean /= count;
  double variance = 0;
  for (const auto& row : data.train) variance += (row.numbers[column] - mean) * (row.numbers[column] - mean);
  const double deviation = std::sqrt(variance / count);
  // A constant column becomes 0.
  const double scale = deviation > 0 ? 1 / deviation : 0;
  for (auto* rows : {&data.train, &data.test})
    for (auto& row : *rows) row.numbers[column] = static_cast<float>((row.numbers[column] - mean) * scale);
}

result<std::string> inflate_gzip(const char* name, const unsigned char* begin, const unsigned char* end) {
  z_stream stream{};
  constexpr int gzip_window = 16 + MAX_WBITS;
  if (inflateInit2(&stream, gzip_window) != Z_OK) return bad_input("{}: zlib: {}", name, stream.msg);
  stream.next_in = const_cast<unsigned char*>(begin);  // zlib's interface lacks the const; it only reads
  stream.avail_in = static_cast<uInt>(end - begin);
  std::string text;
  int status = Z_OK;
  while (status == Z_OK) {
    constexpr std::size_t chunk = std::size_t{1} << 20;
    const std::size_t had = text.size();
    text.resize(had + chunk);
    stream.next_out = reinterpret_cast<unsigned char*>(text.data() + had);
    stream.avail_out = chunk;
    status = inflate(&stream, Z_NO_FLUSH);
    text.resize(text.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END) return bad_input("{}: damaged inside the program (zlib {})", name, status);
  return text;
}

}  // namespace

result<adult_data> parse_adult(std::string_view train_text, std::string_view test_text) {
  std::array<vocabulary, adult_tables> vocabularies;
  TROUPE_TRY(train, file_reader("adult.data", vocabularies, true).read(train_text));
  TROUPE_TRY(test, file_reader("adult.test", vocabularies, false).read(test_text));
  adult_data data{std::move(train), std::move(test), {}};
  for (std::size_t i = 0; i < adult_dense_features; ++i) standardise(data, i);
  for (std::size_t i = 0; i < adult_tables; ++i)
    data.table_rows[i] = static_cast<std::int64_t>(vocabularies[i].size()) + 1;
  return data;
}

result<adult_data> read_adult() {
  TROUPE_TRY(train, inflate_gzip("adult.data.gz", troupe_adult_train, troupe_adult_train_end));
  TROUPE_TRY(test, inflate_gzip("adult.test.gz", troupe_adult_test, troupe_adult_test_end));
  return parse_adult(train, test);
}

}  // namespace troupe::model
