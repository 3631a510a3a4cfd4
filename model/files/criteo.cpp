// The public Criteo TSV (display advertising challenge): a label, 13 integers and 26 hashed categories a line,
// separated by tabs;
// an empty field is a missing value.

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/number.hpp"
#include "base/text.hpp"
#include "model/datasets.hpp"
#include "model/files/category_hash.hpp"
#include "model/files/line_reader.hpp"
#include "model/files/rows.hpp"

namespace troupe::model {

namespace {

constexpr std::size_t columns_in_line = 1 + criteo_dense_features + criteo_tables;

float log1p_of(std::int64_t x) { return static_cast<float>(std::log1p(static_cast<double>(x))); }

// Most integers have a few digits; a general parser is slower for these.
std::optional<std::int64_t> whole_number(std::string_view field) {
  constexpr std::size_t few = 8;
  if (field.size() > few) return parse_number<std::int64_t>(field);
  std::int64_t value = 0;
  for (const char c : field) {
    if (c < '0' || c > '9') return parse_number<std::int64_t>(field);
    value = value * 10 + (c - '0');
  }
  return value;
}

// "column 3 (I2)"
std::string column_name(std::size_t column) {
  if (column == 0) return "column 1 (label)";
  const bool is_integer = column <= criteo_dense_features;
  return fmt::format("column {} ({}{})", column + 1, is_integer ? 'I' : 'C',
                     is_integer ? column : column - criteo_dense_features);
}

class criteo final : public row_format {
 public:
  explicit criteo(const job& job) : hash_(static_cast<std::uint64_t>(job.rows)) {
    layout_.dense = criteo_dense_features;
    layout_.singles = criteo_tables;
    for (std::size_t i = 0; i < criteo_tables; ++i) layout_.tables.push_back({false, i});
    spec_.tables.assign(criteo_tables, {job.rows, job.dim, kernels::pooling::sum, false});
    spec_.dense_features = criteo_dense_features;
    spec_.outputs = outputs_for(job.loss, criteo_classes);
    spec_.binary_targets = true;
    for (std::size_t x = 0; x < small_.size(); ++x) small_[x] = log1p_of(static_cast<std::int64_t>(x));
  }

  const row_layout& layout() const override { return layout_; }
  const data_spec& spec() const override { return spec_; }

  std::optional<std::string> parse(std::string_view line, std::uint32_t* record, row_bags&) const override {
    const char* next = line.data();
    const char* const end = next + line.size();
    for (std::size_t column = 0; column < columns_in_line; ++column) {
      const char* const stop = field_end(next, end, '\t');
      const std::string_view field(next, static_cast<std::size_t>(stop - next));
      // Only the last field may end at the line's end.
      if ((stop == end) != (column + 1 == columns_in_line)) return wrong_count(line);
      if (column > criteo_dense_features)
        record[column] = hash_.row_of(field);
      else if (const char* limit = read_number(field, column, record[column]))
        return fmt::format("{}: {}: must be {}", column_name(column), printable(field), limit);
      next = stop + 1;
    }
    return std::nullopt;
  }

  std::optional<std::string> check(std::string_view line, std::uint64_t&) const override {
    if (count_of(line, '\t') + 1 == columns_in_line) return std::nullopt;
    return wrong_count(line);
  }

 private:
  static std::string wrong_count(std::string_view line) {
    return fmt::format("{} columns in {}: must be {}, with tabs between them", split(line, '\t').size(),
                       printable(line), columns_in_line);
  }

  // Reads the label, or an integer's feature. Returns what a wrong field must be; null if the field is right.
  const char* read_number(std::string_view field, std::size_t column, std::uint32_t& to) const {
    float value = 0;
    if (column == 0) {
      if (field.size() == 2 && field.starts_with('+')) field.remove_prefix(1);
      if (field != "0" && field != "1") return "0 or 1";
      value = field == "1" ? 1.0F : 0.0F;
    } else if (!field.empty()) {
      const auto number = whole_number(field);
      if (!number) return "a whole number of 64 bits, or empty";
      value = *number < 0                                         ? 0.0F
              : static_cast<std::size_t>(*number) < small_.size() ? small_[*number]
                                                                  : log1p_of(*number);
    }
    std::memcpy(&to, &value, sizeof(value));
    return nullptr;
  }

  row_layout layout_;
  data_spec spec_;
  category_hash hash_;
  // A table of logarithms: most integers are small, and a logarithm costs more than the rest of a field.
  std::array<float, 4096> small_;
};

}  // namespace

std::shared_ptr<const row_format> criteo_format(const job& job) { return std::make_shared<const criteo>(job); }

}  // namespace troupe::model
