#include "model/job_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>
#include <toml.hpp>
#include <utility>

#include "base/number.hpp"
#include "base/text.hpp"
#include "model/files/csv_columns.hpp"
#include "model/input_file.hpp"
#include "nn/layer_spec.hpp"

namespace troupe::model {

namespace {

using toml_value = toml::basic_value<toml::discard_comments, std::map>;

constexpr std::size_t file_bytes_max = std::size_t{1} << 20;
// The parser recurses with every bracket and dot, and its time grows with the square of a line's length. (It also reads
// out of bounds before it reports that a literal string is not UTF-8.)
constexpr int nesting_max = 32;
constexpr std::size_t line_bytes_max = 16384;

/// An error in a line of the file; line 0: in the whole file.
struct mistake {
  std::size_t line = 0;
  std::string what;
};

template <class T>
using or_mistake = tl::expected<T, mistake>;

tl::unexpected<mistake> wrong_line(std::size_t line, std::string what) {
  return tl::unexpected<mistake>(mistake{line, std::move(what)});
}

// -- the text --------------------------------------------------------------------------------------------------------

result<std::string> read_job_text(const std::string& path) {
  TROUPE_TRY(file, input_file::open(path, "a job file"));
  file.remember("the job file");
  if (file.length() > file_bytes_max)
    return bad_input("{}: {} bytes: a job file has at most {}", file.name(), file.length(), file_bytes_max);
  std::string text(file.length(), '\0');
  TROUPE_DO(file.read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

std::size_t line_of(std::string_view text, std::size_t at) {
  return 1 + static_cast<std::size_t>(std::ranges::count(text.substr(0, at), '\n'));
}

/// Returns the end of the string that begins at `at`: after its closing quotes, or where it breaks off.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string delimiter(text.substr(at).starts_with(std::string(3, quote)) ? 3 : 1, quote);
  const bool one_line = delimiter.size() == 1;
  for (at += delimiter.size(); at < text.size(); ++at) {
    if (text[at] == '\n' && one_line) return at;
    if (text[at] == '\\' && quote == '"') {
      ++at;
    } else if (text.substr(at).starts_with(delimiter)) {
      at += delimiter.size();
      // Up to two additional quotes belong to a multi-line string.
      while (!one_line && at < text.size() && text[at] == quote) ++at;
      return at;
    }
  }
  return text.size();
}

/// Refuses input that the parser cannot handle.
std::optional<mistake> check_shape(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == text.npos) return mistake{0, "is empty; a job file has a setting a line"};
  if (const auto zero = text.find('\0'); zero != text.npos)
    return mistake{line_of(text, zero), "a byte of value 0: a job file is text"};
  if (const auto odd = find_non_utf8(text); odd != text.npos)
    return mistake{line_of(text, odd), "a byte that is not UTF-8, which a job file has to be"};
  std::size_t line = 0;
  for (const auto one : split(text, '\n')) {
    ++line;
    if (one.size() <= line_bytes_max) continue;
    return mistake{line, fmt::format("a line of {} bytes: must be at most {}; break it", one.size(), line_bytes_max)};
  }
  int depth = 0;
  int dots = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"' || c == '\'')
      at = end_of_string(text, at) - 1;
    else if (c == '#')
      at = std::min(text.find('\n', at), text.size()) - 1;
    else if (c == '.')
      ++dots;
    else if (c == '=' || c == ',' || c == '\n')
      dots = 0;
    else if (c == '[' || c == '{')
      ++depth;
    else if (c == ']' || c == '}')
      --depth;
    if (std::max(depth, dots) > nesting_max) return mistake{line_of(text, at), "nested too deeply for a job file"};
  }
  return std::nullopt;
}

/// Returns the first line of the parser's message; if it is only a function's name, the text at the marker.
std::string complaint(std::string_view message) {
  std::string_view said = message.substr(0, message.find('\n'));
  if (said.starts_with("[error] ")) said.remove_prefix(8);
  if (said.starts_with("toml::") || said.starts_with("parse_")) said.remove_prefix(said.find(": ") + 2);
  constexpr std::string_view marker = "^--- ";
  if (const auto place = message.find(marker); said.empty() && place != message.npos) {
    said = message.substr(place + marker.size());
    said = said.substr(0, said.find('\n'));
  }
  if (said.ends_with('.')) said.remove_suffix(1);
  return printable(said);
}

or_mistake<toml_value> parse_text(const std::string& text) {
  if (auto problem = check_shape(text)) return tl::unexpected<mistake>(std::move(*problem));
  std::istringstream stream(text);
  try {
    return toml::parse<toml::discard_comments, std::map>(stream);
  } catch (const toml::exception& failure) {
    return wrong_line(failure.location().line(), "not valid TOML: " + complaint(failure.what()));
  } catch (const std::exception& failure) {
    return wrong_line(0, "not valid TOML: " + complaint(failure.what()));
  }
}

// -- values ----------------------------------------------------------------------------------------------------------

/// Returns the first line of the value's text in the file.
std::string source_text(const toml_value& value) {
  const auto place = value.location();
  return place.line_str().substr(place.column() - 1, place.region());
}

/// Returns a number's text in the settings' spelling. Reads the file's text, since the parser silently saturates
/// numbers that are too large.
std::string number_text(const toml_value& value) {
  std::string text = source_text(value);
  std::erase(text, '_');
  if (text.starts_with('+')) text.erase(0, 1);
  const int base = text.starts_with("0x") ? 16 : text.starts_with("0o") ? 8 : text.starts_with("0b") ? 2 : 10;
  std::uint64_t number = 0;
  if (base == 10 || std::from_chars(&text[2], &text[0] + text.size(), number, base).ec != std::errc()) return text;
  return std::to_string(number);
}

tl::unexpected<mistake> wrong_type(const std::string& name, const toml_value& value, const std::string& wanted) {
  return wrong_line(value.location().line(),
                    fmt::format("{} = {}: must be {}", name, printable(source_text(value)), wanted));
}

/// Refuses NUL: system calls would truncate the text there.
or_mistake<std::string> checked_string(const std::string& name, const toml_value& value) {
  const std::string& text = value.as_string().str;
  if (text.find('\0') == text.npos) return text;
  return wrong_type(name, value, "without a character of value 0");
}

std::string list_text(const std::string& name) {
  return fmt::format("a list of whole numbers, such as {}", name == "stages" ? "[0, 3]" : "[64, 32]");
}

or_mistake<std::string> widths_of(const std::string& name, const toml_value& value) {
  std::vector<std::string> widths;
  for (const toml_value& width : value.as_array()) {
    if (!width.is_integer()) return wrong_type(name, width, list_text(name));
    widths.push_back(number_text(width));
  }
  return widths.empty() ? "none" : fmt::format("{}", fmt::join(widths, ","));
}

constexpr const char* names_text = "a list of texts in quotes, such as [\"mae\"]";

or_mistake<std::string> names_of(const std::string& name, const toml_value& value) {
  std::vector<std::string> names;
  for (const toml_value& one : value.as_array()) {
    if (!one.is_string()) return wrong_type(name, one, names_text);
    TROUPE_TRY(text, checked_string(name, one));
    names.push_back(std::move(text));
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ","));
}

/// The kind of an entry: a column or a layer. Only layers may contain real numbers and other layers.
enum class entry_kind : std::uint8_t { column, layer };

or_mistake<boost::json::value> json_of(entry_kind of, const std::string& name, const toml_value& value);

or_mistake<boost::json::value> inner_layer(const toml_value& entry) {
  boost::json::object object;
  for (const auto& [key, value] : entry.as_table()) {
    TROUPE_TRY(json, json_of(entry_kind::layer, key, value));
    object[key] = std::move(json);
  }
  return boost::json::value(std::move(object));
}

or_mistake<boost::json::value> json_of(entry_kind of, const std::string& name, const toml_value& value) {
  const bool is_layer = of == entry_kind::layer;
  const auto refuse = [&] {
    return wrong_type(name, value,
                      is_layer ? "a number, a text in quotes, true, false, or a list of layers"
                               : "a text in quotes, a whole number, true, false, or a list of such");
  };
  if (value.is_boolean()) return boost::json::value(value.as_boolean());
  if (value.is_string()) {
    TROUPE_TRY(text, checked_string(name, value));
    return boost::json::value(text);
  }
  if (value.is_integer()) {
    const auto number = parse_number<std::int64_t>(number_text(value));
    if (!number) return refuse();
    return boost::json::value(*number);
  }
  if (is_layer && value.is_floating()) {
    const auto number = parse_number<double>(number_text(value));
    if (!number) return refuse();
    return boost::json::value(*number);
  }
  if (is_layer && value.is_table()) return inner_layer(value);
  if (!value.is_array()) return refuse();
  boost::json::array list;
  for (const toml_value& one : value.as_array()) {
    if (one.is_array()) return refuse();
    TROUPE_TRY(element, json_of(of, name, one));
    list.push_back(std::move(element));
  }
  return boost::json::value(std::move(list));
}

/// Returns the entries of [[name]] as JSON text.
or_mistake<std::string> entries_of(const std::string& name, const toml_value& value) {
  const entry_kind of = name == "columns" ? entry_kind::column : entry_kind::layer;
  const std::vector<std::string> keys = of == entry_kind::column ? column_keys() : nn::layer_keys();
  boost::json::array entries;
  for (const toml_value& entry : value.as_array()) {
    if (!entry.is_table()) return wrong_type(name, entry, fmt::format("[[{}]] entries", name));
    for (const auto& [key, ignored] : entry.as_table()) {
      if (std::ranges::find(keys, key) != keys.end()) continue;
      return wrong_line(ignored.location().line(),
                        fmt::format("{}: a {} has no such key; {}", printable(key),
                                    of == entry_kind::column ? "column" : "layer", suggestions(key, keys)));
    }
    boost::json::object object;
    for (const std::string& key : keys) {
      if (!entry.contains(key)) continue;
      TROUPE_TRY(json, json_of(of, key, entry.at(key)));
      object[key] = std::move(json);
    }
    entries.push_back(std::move(object));
  }
  return boost::json::serialize(entries);
}

std::vector<std::size_t> lines_of_layers(const setting_info& info, const toml_value& value) {
  std::vector<std::size_t> lines;
  if (info.name == "layers" && value.is_array())
    for (const toml_value& one : value.as_array()) lines.push_back(one.location().line());
  return lines;
}

or_mistake<std::string> text_of(const setting_info& info, const toml_value& value) {
  switch (info.type) {
    case setting_type::text:
      if (value.is_string()) return checked_string(info.name, value);
      return wrong_type(info.name, value, "a text in quotes");
    case setting_type::whole:
      if (value.is_integer()) return number_text(value);
      if (info.name == "trainers" && value.is_string() && value.as_string() == all_trainers) return "all";
      return wrong_type(info.name, value, "a whole number");
    case setting_type::real:
      if (value.is_integer() || value.is_floating()) return number_text(value);
      if (info.name == "checkpoint-seconds" && value.is_string() && value.as_string() == "auto") return "auto";
      return wrong_type(info.name, value, "a number");
    case setting_type::truth:
      if (value.is_boolean()) return value.as_boolean() ? "true" : "false";
      return wrong_type(info.name, value, "true or false");
    case setting_type::widths:
      if (value.is_string()) return checked_string(info.name, value);
      if (value.is_array()) return widths_of(info.name, value);
      return wrong_type(info.name, value, list_text(info.name));
    case setting_type::names:
      if (value.is_string()) return checked_string(info.name, value);
      if (value.is_array()) return names_of(info.name, value);
      return wrong_type(info.name, value, names_text);
    case setting_type::entries:
      if (value.is_string()) return checked_string(info.name, value);
      if (value.is_array()) return entries_of(info.name, value);
      return wrong_type(info.name, value, fmt::format("[[{}]] entries", info.name));
  }
  return wrong_line(0, "a setting of no type");
}

or_mistake<std::vector<job_file::entry>> read_entries(const std::string& text, const std::vector<setting_info>& known) {
  TROUPE_TRY(parsed, parse_text(text));

  const auto names = names_in(known, &setting_info::name);
  for (const auto& [name, value] : parsed.as_table()) {
    if (std::ranges::find(names, name) != names.end()) continue;
    const std::size_t line = value.location().line();
    if (value.is_table())
      return wrong_line(
          line,
          fmt::format("{}: a job file has no such section; its settings need no section, columns as [[columns]] and "
                      "layers as [[layers]]",
                      printable(name)));
    return wrong_line(line,
                      fmt::format("{}: unknown setting; the nearest is {}", printable(name), nearest(name, names)));
  }
  std::vector<job_file::entry> entries;
  for (const setting_info& info : known) {
    if (!parsed.contains(info.name)) continue;
    const toml_value& value = parsed.at(info.name);
    TROUPE_TRY(given, text_of(info, value));
    entries.push_back({{info.name, std::move(given)}, value.location().line(), lines_of_layers(info, value)});
  }
  return entries;
}

std::string place_of(const std::string& path, std::size_t line) {
  return line == 0 ? printable_path(path) : fmt::format("{}:{}", printable_path(path), line);
}

/// Returns the line of the layer that a message names, else the setting's line.
std::size_t line_named(std::string_view message, const job_file::entry& from) {
  constexpr std::string_view before_number = "layer ";
  const auto at = message.find(before_number);
  if (at == message.npos) return from.line;
  const char* const digits = message.data() + at + before_number.size();
  std::size_t number = from.lines.size();
  std::from_chars(digits, message.data() + message.size(), number);
  return number < from.lines.size() ? from.lines[number] : from.line;
}

}  // namespace

result<job_file> read_job_file(const std::string& path, const std::vector<setting_info>& known) {
  TROUPE_TRY(text, read_job_text(path));
  auto entries = read_entries(text, known);
  if (entries) return job_file{path, std::move(*entries)};
  return bad_input("{}: {}", place_of(path, entries.error().line), entries.error().what);
}

fault located(fault what, const job_file& file) {
  for (const job_file::entry& one : file.entries) {
    const std::string name = "--" + one.given.first;
    if (!what.message.starts_with(name + " ") && !what.message.starts_with(name + ":")) continue;
    const std::string_view rest = std::string_view(what.message).substr(name.size());
    what.message = fmt::format("{}: {}{}{}", place_of(file.path, line_named(rest, one)), one.given.first,
                               rest.front() == ' ' ? " =" : "", rest);
    break;
  }
  return what;
}

}  // namespace troupe::model
