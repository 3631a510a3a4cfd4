#include "apps/json_line.hpp"

namespace troupe {

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
