// One JSON object on one line, built field by field: tens of thousands of epochs may end in a second, so a line costs
// no more than its characters.

#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/json_text.hpp"

namespace troupe {

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
