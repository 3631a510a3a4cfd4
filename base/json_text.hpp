// JSON text: values, objects on one line, and a parser for users' text.

#pragma once

#include <boost/json/fwd.hpp>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace troupe {

/// Returns `text` as a JSON string with quotes. A byte that is not UTF-8 becomes the four characters \xff.
std::string json_string(std::string_view text);

/// Returns `value` with enough digits to read back the same bits; null if it is not finite.
std::string json_number(double value);

/// Parses JSON that a user has written; skips a byte order mark. Faults, for use within a message, name the error and
/// its byte. A repeated key is also a fault: a parsed tree would silently keep its last value.
result<boost::json::value> parse_json(std::string_view text);

/// Builds one JSON object on one line, field by field. It is fast because tens of thousands of epochs may end in a
/// second.
class json_line {
 public:
  /// Begins `{"event":"EVENT"`.
  explicit json_line(std::string_view event);

  json_line& add(std::string_view name, double value) { return add_json(name, json_number(value)); }
  json_line& add(std::string_view name, const std::optional<double>& value) {
    return add_json(name, value ? json_number(*value) : "null");
  }
  json_line& add(std::string_view name, std::uint64_t value) { return add_json(name, std::to_string(value)); }
  json_line& add(std::string_view name, std::string_view text) { return add_json(name, json_string(text)); }
  json_line& add(std::string_view name, const char* text) { return add(name, std::string_view(text)); }
  /// A template, so that only bool itself is accepted, not types that convert to it.
  template <std::same_as<bool> Bool>
  json_line& add(std::string_view name, Bool value) {
    return add_json(name, value ? "true" : "false");
  }

  /// Adds a value that is JSON text. Requires: the name needs no escapes.
  json_line& add_json(std::string_view name, std::string_view json);

  /// Returns the whole line with its line end.
  std::string take();

 private:
  std::string text_;
};

}  // namespace troupe
