#include "model/files/csv_columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <optional>
#include <set>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "model/datasets.hpp"

namespace troupe::model {

namespace {

namespace json = boost::json;

// An error text about a column, to follow "column 2 (age): "; null: none.
using column_fault = std::optional<std::string>;

std::string shown(const json::value& value) {
  const auto* text = value.if_string();
  return printable(text != nullptr ? std::string_view(*text) : std::string_view(json::serialize(value)));
}

column_fault refuse(const char* key, const json::value& value, const std::string& limit) {
  return fmt::format("{} {}: must be {}", key, shown(value), limit);
}

// Reads one of a few names.
template <class Enum>
column_fault read_name(const char* key, const json::value& value, const std::map<std::string, Enum>& names, Enum& to) {
  const auto known = names_in(names, &std::pair<const std::string, Enum>::first);
  const auto* text = value.if_string();
  if (text == nullptr) return refuse(key, value, alternatives(known));
  const auto found = names.find(std::string(*text));
  if (found == names.end()) return fmt::format("{} {}: unknown; {}", key, shown(value), suggestions(*text, known));
  to = found->second;
  return std::nullopt;
}

const std::map<std::string, csv_kind> kinds{{"label", csv_kind::label},
                                            {"numeric", csv_kind::numeric},
                                            {"categorical", csv_kind::categorical},
                                            {"multi", csv_kind::multi},
                                            {"ignore", csv_kind::ignore}};

column_fault read_kind(const json::value& value, csv_column& to) { return read_name("kind", value, kinds, to.kind); }

column_fault read_column_name(const json::value& value, csv_column& to) {
  const auto* text = value.if_string();
  if (text == nullptr || text->empty()) return refuse("name", value, "a text that is not empty");
  to.name = std::string(*text);
  return std::nullopt;
}

column_fault read_rows(const json::value& value, csv_column& to) {
  json::error_code ec;
  to.rows = value.to_number<std::int64_t>(ec);
  if (!ec && to.rows >= static_cast<std::int64_t>(file_rows_min) && to.rows <= static_cast<std::int64_t>(file_rows_max))
    return std::nullopt;
  return refuse("rows", value, fmt::format("a whole number between {} and {}", file_rows_min, file_rows_max));
}

column_fault read_vocabulary(const json::value& value, csv_column& to) {
  const auto* values = value.if_array();
  if (values == nullptr || values->empty()) return refuse("vocabulary", value, "an array of at least one text");
  std::set<std::string_view> seen;
  for (const auto& one : *values) {
    const auto* text = one.if_string();
    if (text == nullptr || text->empty())
      return refuse("vocabulary", one, "a text that is not empty; an empty field is a missing value, which has row 0");
    if (!seen.insert(*text).second) return fmt::format("vocabulary: {} is given twice", shown(one));
    to.vocabulary.emplace_back(*text);
  }
  return std::nullopt;
}

column_fault read_separator(const json::value& value, csv_column& to) {
  const auto* text = value.if_string();
  if (text == nullptr || !is_separator(*text)) return refuse("separator", value, separator_limit);
  to.separator = text->front();
  return std::nullopt;
}

column_fault read_mode(const json::value& value, csv_column& to) {
  using enum kernels::pooling;
  return read_name<kernels::pooling>("mode", value, {{"sum", sum}, {"mean", mean}, {"max", max}}, to.mode);
}

column_fault read_transform(const json::value& value, csv_column& to) {
  return read_name<bool>("transform", value, {{"none", false}, {"log1p", true}}, to.log1p);
}

// A key of a description.
struct column_key {
  const char* name;
  std::vector<csv_kind> kinds;  // the kinds that it applies to; empty: all
  column_fault (*read)(const json::value&, csv_column&);
};

const std::vector<column_key> known_keys{{"name", {}, read_column_name},
                                         {"kind", {}, read_kind},
                                         {"rows", {csv_kind::categorical, csv_kind::multi}, read_rows},
                                         {"vocabulary", {csv_kind::categorical, csv_kind::multi}, read_vocabulary},
                                         {"separator", {csv_kind::multi}, read_separator},
                                         {"mode", {csv_kind::multi}, read_mode},
                                         {"transform", {csv_kind::numeric}, read_transform}};

bool has(csv_kind kind, const column_key& key) {
  return key.kinds.empty() || std::ranges::find(key.kinds, kind) != key.kinds.end();
}

column_fault no_such_key(const std::string& name, csv_kind kind) {
  const auto& all = column_keys();
  if (std::ranges::find(all, name) == all.end())
    return fmt::format("{}: unknown key; the nearest is {}", printable(name), nearest(name, all));
  std::vector<std::string> of_kind;
  for (const auto& key : known_keys)
    if (has(kind, key)) of_kind.emplace_back(key.name);
  const auto& kind_name = std::ranges::find(kinds, kind, &std::pair<const std::string, csv_kind>::second)->first;
  return fmt::format("{}: {} has no such key; it has {}", name, kind_name, alternatives(of_kind));
}

// Requires: `to` already has the name, if the description has one.
column_fault read_column(const json::object& from, const job& job, csv_column& to) {
  // The kind determines which known_keys are allowed.
  const auto* kind = from.if_contains("kind");
  if (kind == nullptr) return "kind is missing: must be label, numeric, categorical, multi or ignore";
  if (auto refused = read_kind(*kind, to)) return refused;
  for (const auto& member : from) {
    const std::string name(member.key());
    const auto key = std::ranges::find(known_keys, name, &column_key::name);
    if (key == known_keys.end() || !has(to.kind, *key)) return no_such_key(name, to.kind);
    if (auto refused = key->read(member.value(), to)) return refused;
  }
  if (to.name.empty() && job.header) return "name is missing: must be one of the header's names";
  if (!to.is_table()) return std::nullopt;
  if (!to.vocabulary.empty()) {
    if (to.rows > 0) return "rows: must be left out where there is a vocabulary, which has a row for each of its texts";
    to.rows = static_cast<std::int64_t>(to.vocabulary.size()) + 1;
  } else if (to.rows == 0) {
    to.rows = job.rows;
  }
  return std::nullopt;
}

column_fault check_all(const std::vector<csv_column>& columns) {
  std::map<std::string_view, std::size_t> numbers;
  std::size_t label = 0;
  bool has_features = false;
  for (std::size_t number = 1; number <= columns.size(); ++number) {
    const auto& column = columns[number - 1];
    if (!column.name.empty()) {
      const auto [first, is_new] = numbers.try_emplace(column.name, number);
      if (!is_new)
        return fmt::format("columns {} and {} are both called {}; describe a column once", first->second, number,
                           printable(column.name));
    }
    if (column.kind == csv_kind::label) {
      if (label > 0) return fmt::format("columns {} and {} are both labels; must be one", label, number);
      label = number;
    }
    has_features = has_features || column.is_table() || column.kind == csv_kind::numeric;
  }
  if (label == 0) return "no column is the label; give one kind label";
  if (!has_features) return "no column is a feature; give one kind numeric, categorical or multi";
  const auto tables = std::ranges::count_if(columns, &csv_column::is_table);
  if (static_cast<std::size_t>(tables) > tables_max)
    return fmt::format("{} columns are categorical or multi; must be at most {}", tables, tables_max);
  return std::nullopt;
}

}  // namespace

const std::vector<std::string>& column_keys() {
  static const std::vector<std::string> keys = names_in(known_keys, &column_key::name);
  return keys;
}

bool is_separator(std::string_view text) {
  if (text.size() != 1 || text == "\n" || text == "\r") return false;
  const auto byte = static_cast<unsigned char>(text.front());
  return byte > 0 && byte < 0x80;
}

std::string column_text(std::size_t number, const std::string& name) {
  return name.empty() ? fmt::format("column {}", number) : fmt::format("column {} ({})", number, printable(name));
}

result<std::vector<csv_column>> parse_columns(const job& job) {
  const auto parsed = parse_json(job.columns);
  if (!parsed)
    return bad_input("--columns {}: {}; must be a JSON array of objects", printable(job.columns),
                     parsed.error().message);
  const auto* descriptions = parsed->if_array();
  if (descriptions == nullptr)
    return bad_input("--columns {}: must be a JSON array of objects", printable(job.columns));
  std::vector<csv_column> columns;
  for (const auto& description : *descriptions) {
    auto& column = columns.emplace_back();
    const auto* object = description.if_object();
    const auto* name = object == nullptr ? nullptr : object->if_contains("name");
    if (name != nullptr && name->is_string()) column.name = std::string(name->as_string());
    const auto refused = object == nullptr ? fmt::format("{}: must be an object", shown(description))
                                           : read_column(*object, job, column);
    if (refused) return bad_input("--columns: {}: {}", column_text(columns.size(), column.name), *refused);
  }
  if (auto refused = check_all(columns)) return bad_input("--columns: {}", *refused);
  return columns;
}

}  // namespace troupe::model
