#include "base/json_text.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/text.hpp"

namespace troupe {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      out += fmt::format(R"(\\x{:02x})", static_cast<unsigned char>(c));
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
  return out;
}

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  return fmt::format("{}", value);
}

json_line::json_line(std::string_view event) {
  text_.reserve(256);
  text_ += "{\"event\":";
  text_ += json_string(event);
}

json_line& json_line::add_json(std::string_view name, std::string_view json) {
  text_ += ",\"";
  text_ += name;
  text_ += "\":";
  text_ += json;
  return *this;
}

std::string json_line::take() {
  text_ += "}\n";
  return std::move(text_);
}

}  // namespace troupe
