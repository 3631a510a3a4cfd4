#include "base/json_text.hpp"

#include <fmt/format.h>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <set>
#include <vector>

#include "base/text.hpp"

namespace troupe {

namespace {

// A handler for Boost.JSON's basic_parser that stops at a key that its object already has.
class repeated_key_finder {
 public:
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

  using error_code = boost::json::error_code;
  using string_view = boost::json::string_view;

  /// Returns the repeated key with its location, as in "key kind of [1]"; empty without one.
  const std::string& found() const { return found_; }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_object_begin(error_code&) { return open(false); }
  bool on_object_end(std::size_t, error_code&) { return close(); }
  bool on_array_begin(error_code&) { return open(true); }
  bool on_array_end(std::size_t, error_code&) { return close(); }

  bool on_key_part(string_view part, std::size_t, error_code&) {
    partial_.append(part.data(), part.size());
    return true;
  }

  bool on_key(string_view part, std::size_t, error_code& ec) {
    partial_.append(part.data(), part.size());
    level& object = levels_.back();
    object.key = std::exchange(partial_, {});
    if (object.keys.insert(object.key).second) return true;
    const std::string place = place_of_innermost();
    found_ = fmt::format("key {}{}", printable(object.key), place.empty() ? "" : " of " + printable(place));
    ec = boost::system::errc::make_error_code(boost::system::errc::invalid_argument);
    return false;
  }

  bool on_string_part(string_view, std::size_t, error_code&) { return true; }
  bool on_string(string_view, std::size_t, error_code&) { return add(); }
  bool on_number_part(string_view, error_code&) { return true; }
  bool on_int64(std::int64_t, string_view, error_code&) { return add(); }
  bool on_uint64(std::uint64_t, string_view, error_code&) { return add(); }
  bool on_double(double, string_view, error_code&) { return add(); }
  bool on_bool(bool, error_code&) { return add(); }
  bool on_null(error_code&) { return add(); }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

 private:
  // An object or array that has not ended.
  struct level {
    bool is_array = false;
    std::size_t elements = 0;
    std::set<std::string> keys = {};
    std::string key = {};
  };

  bool open(bool is_array) {
    add();
    levels_.push_back({.is_array = is_array});
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  bool add() {
    if (!levels_.empty()) ++levels_.back().elements;
    return true;
  }

  // Such as "[1].layers[0]"; empty for the outermost one.
  std::string place_of_innermost() const {
    std::string place;
    for (std::size_t i = 0; i + 1 < levels_.size(); ++i) {
      const level& one = levels_[i];
      if (one.is_array)
        place += fmt::format("[{}]", one.elements - 1);
      else
        place += (place.empty() ? "" : ".") + one.key;
    }
    return place;
  }

  std::vector<level> levels_;
  std::string partial_;
  std::string found_;
};

}  // namespace

result<boost::json::value> parse_json(std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  const std::size_t skipped = text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
  text.remove_prefix(skipped);
  boost::json::basic_parser<repeated_key_finder> parser{boost::json::parse_options()};
  boost::json::error_code ec;
  const std::size_t read = parser.write_some(false, text.data(), text.size(), ec);
  if (const std::string& twice = parser.handler().found(); !twice.empty())
    return bad_input("{} is given twice, at byte {}", twice, skipped + read);
  if (!ec && read < text.size()) ec = boost::json::error::extra_data;
  if (ec) return bad_input("{} at byte {}", ec.message(), skipped + read);
  return boost::json::parse(text);
}

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
