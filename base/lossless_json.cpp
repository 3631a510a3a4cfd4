#include "base/lossless_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "base/number.hpp"
#include "base/text.hpp"

namespace troupe {

namespace {

namespace json = boost::json;

constexpr std::string_view backslash = R"(\\)";  // the JSON escape within a text

/// Escapes the bytes of serialized JSON that are not UTF-8, which are all within texts; if `all`, also each backslash
/// before an x in a text.
std::string escaped(std::string text, bool all) {
  if (find_non_utf8(text) == text.npos && (!all || text.find(R"(\\x)") == text.npos)) return text;
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t length = rest.front() == '\\' ? 2 : utf8_length(rest);
    if (length == 0) out += fmt::format(R"(\\x{:02x})", static_cast<unsigned char>(rest.front()));
    const std::string_view part = rest.substr(0, length);
    out += part;
    rest.remove_prefix(std::max<std::size_t>(length, 1));
    if (all && part == backslash && rest.starts_with('x')) out += "x5c";
  }
  return out;
}

std::string bytes_of_escapes(std::string_view text) {
  constexpr std::size_t length = 4;  // of \xff
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const bool may_be_one = text.starts_with(R"(\x)") && text.size() >= length;
    const auto byte = may_be_one ? parse_number<unsigned char>(text.substr(2, 2), 16) : std::nullopt;
    out += byte ? static_cast<char>(*byte) : text.front();
    text.remove_prefix(byte ? length : 1);
  }
  return out;
}

/// Replaces the escapes of all texts inside, including keys. The parser has limited the depth.
void unescape(json::value& what) {
  if (json::string* text = what.if_string()) {
    *text = bytes_of_escapes(*text);
  } else if (json::array* items = what.if_array()) {
    for (json::value& one : *items) unescape(one);
  } else if (json::object* fields = what.if_object()) {
    json::object made;
    made.reserve(fields->size());
    for (auto& field : *fields) {
      unescape(field.value());
      made[bytes_of_escapes(field.key())] = std::move(field.value());
    }
    *fields = std::move(made);
  }
}

}  // namespace

std::string json_text(const json::value& what) { return escaped(json::serialize(what), false); }

std::string lossless_json(const json::value& what) { return escaped(json::serialize(what), true); }

result<json::value> parse_lossless_json(std::string_view text) {
  boost::system::error_code failed;
  json::value made = json::parse({text.data(), text.size()}, failed);
  if (failed) return bad_input(failed.message());
  if (text.find(R"(\\x)") != text.npos) unescape(made);
  return made;
}

}  // namespace troupe
