// JSON text: values, and one object on one line.

#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

/// `value` such that it reads back as the same bits; null if it is not finite.
std::string json_number(double value);

/// One JSON object on one line, built field by field: tens of thousands of epochs may end in a second, so a line costs
/// no more than its characters.
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
  /// Only for bool itself: whatever converts to it should not arrive here unnoticed.
  template <std::same_as<bool> Bool>
  json_line& add(std::string_view name, Bool value) {
    return add_json(name, value ? "true" : "false");
  }

  /// Adds a value that is JSON already. Names need no escapes.
  json_line& add_json(std::string_view name, std::string_view json);

  /// The whole line, its end included.
  std::string take();

 private:
  std::string text_;
};

}  // namespace troupe
