// Printing a job's settings as TOML.

#include <fmt/format.h>

#include <boost/json.hpp>
#include <optional>
#include <string_view>

#include "base/json_text.hpp"
#include "base/number.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "model/files/csv_columns.hpp"
#include "model/job_file.hpp"

namespace troupe::model {

namespace {

constexpr std::size_t line_columns = 100;

/// Returns a basic string of TOML.
std::string toml_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// Returns a list on one line, or on several if it is long.
std::string list_of(const std::vector<std::string>& elements) {
  std::string one_line = fmt::format("[{}]", fmt::join(elements, ", "));
  if (one_line.size() <= line_columns) return one_line;
  std::string out = "[";
  std::size_t column = line_columns;
  for (const std::string& element : elements) {
    const bool next_line = column + element.size() + 2 > line_columns;
    column = next_line ? 2 + element.size() + 1 : column + element.size() + 2;
    out += (next_line ? "\n  " : " ") + element + ",";
  }
  return out + "\n]";
}

/// Returns a comma-separated text, which may be `none`, as a list.
template <class ToToml>
std::string list_in(std::string_view text, const ToToml& to_toml) {
  std::vector<std::string> elements;
  if (text != "none")
    for (const auto one : split(text, ',')) elements.push_back(to_toml(one));
  return list_of(elements);
}

/// Returns a text that reads back as the same bits, and not as an integer.
std::string real_text(double number) {
  std::string text = fmt::format("{}", number);
  return text.find_first_of(".en") == text.npos ? text + ".0" : text;
}

std::string value_text(const setting_info& info, const std::string& text) {
  switch (info.type) {
    case setting_type::whole:
      if (const auto number = parse_number<std::uint64_t>(text)) return std::to_string(*number);
      break;
    case setting_type::real:
      if (const auto number = parse_number<double>(text)) return real_text(*number);
      break;
    case setting_type::truth:
      return text;
    case setting_type::widths:
      return list_in(text, [](std::string_view width) { return std::string(width); });
    case setting_type::names:
      return list_in(text, toml_quoted);
    case setting_type::text:
    case setting_type::entries:
      break;
  }
  return toml_quoted(text);
}

std::optional<std::string> toml_of(bool of_layer, const boost::json::value& json);

/// Returns `key = value` for each key, in the order of job files, which layers have already; null if the object has
/// other keys, or a value that job files cannot have.
std::optional<std::vector<std::string>> pairs_of(bool of_layer, const boost::json::object& object) {
  std::vector<std::string> keys = column_keys();
  if (of_layer) {
    keys.clear();
    for (const auto& member : object) keys.emplace_back(member.key());
  }
  std::vector<std::string> pairs;
  for (const std::string& key : keys) {
    if (!object.contains(key)) continue;
    const auto value = toml_of(of_layer, object.at(key));
    if (!value) return std::nullopt;
    pairs.push_back(fmt::format("{} = {}", key, *value));
  }
  return pairs.empty() || pairs.size() < object.size() ? std::nullopt : std::optional(std::move(pairs));
}

/// Converts JSON to TOML; null for JSON that has no form in a job file. Only layers may contain real numbers and
/// layers.
std::optional<std::string> toml_of(bool of_layer, const boost::json::value& json) {
  if (json.is_string()) {
    const std::string_view text(json.get_string().data(), json.get_string().size());
    return text.find('\0') == text.npos ? std::optional(toml_quoted(text)) : std::nullopt;
  }
  if (json.is_int64()) return std::to_string(json.get_int64());
  if (json.is_uint64()) return std::to_string(json.get_uint64());
  if (of_layer && json.is_double()) return real_text(json.get_double());
  if (json.is_bool()) return json.get_bool() ? "true" : "false";
  if (of_layer && json.is_object()) {
    const auto pairs = pairs_of(true, json.get_object());
    return pairs ? std::optional(fmt::format("{{{}}}", fmt::join(*pairs, ", "))) : std::nullopt;
  }
  if (!json.is_array()) return std::nullopt;
  std::vector<std::string> elements;
  for (const auto& one : json.get_array()) {
    auto element = one.is_array() ? std::nullopt : toml_of(of_layer, one);
    if (!element) return std::nullopt;
    elements.push_back(std::move(*element));
  }
  return list_of(elements);
}

/// Returns a list as [[name]] entries, or the text itself if its JSON has no such form.
std::string entries_text(const std::string& name, const std::string& text) {
  std::string as_text = fmt::format("{} = {}\n", name, toml_quoted(text));
  const auto json = parse_json(text);
  if (!json || !json->is_array() || json->get_array().empty()) return as_text;
  std::string out;
  for (const auto& one : json->get_array()) {
    const auto pairs = one.is_object() ? pairs_of(name != "columns", one.get_object()) : std::nullopt;
    if (!pairs) return as_text;
    out += fmt::format("\n[[{}]]\n{}\n", name, fmt::join(*pairs, "\n"));
  }
  return out;
}

}  // namespace

result<std::string> print_job(const std::vector<setting>& settings, const std::vector<setting_info>& known) {
  std::string out;
  std::string entries;  // TOML tables come last
  for (const setting_info& info : known) {
    const std::string* found = value_of(settings, info.name);
    if (found == nullptr) continue;
    const std::string& text = *found;
    if (find_non_utf8(text) != text.npos)
      return bad_input("--{} {}: is not UTF-8, which a job file has to be; use another name", info.name,
                       printable(text));
    if (info.type == setting_type::entries)
      entries += entries_text(info.name, text);
    else
      out += fmt::format("{} = {}\n", info.name, value_text(info, text));
  }
  return out + entries;
}

}  // namespace troupe::model
