#include "cluster/links/hello.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "cluster/links/bytes.hpp"

namespace troupe::links {

namespace {

using length_field = std::uint16_t;

void append_text(std::vector<std::byte>& bytes, std::string_view text) {
  text = text.substr(0, std::numeric_limits<length_field>::max());
  append_number(bytes, static_cast<length_field>(text.size()));
  append(bytes, std::as_bytes(std::span(text)));
}

/// Removes a text from the front of `bytes`; null if it is incomplete.
std::optional<std::string> take_text(std::span<const std::byte>& bytes) {
  if (bytes.size() < sizeof(length_field)) return std::nullopt;
  const std::size_t length = number_at<length_field>(bytes, 0);
  bytes = bytes.subspan(sizeof(length_field));
  if (bytes.size() < length) return std::nullopt;
  std::string text(reinterpret_cast<const char*>(bytes.data()), length);
  bytes = bytes.subspan(length);
  return text;
}

}  // namespace

std::vector<std::byte> encode(const hello& items) {
  std::vector<std::byte> bytes;
  for (const auto& [name, value] : items) {
    append_text(bytes, name);
    append_text(bytes, value);
  }
  return bytes;
}

std::optional<hello> decode_hello(std::span<const std::byte> bytes) {
  if (bytes.size() > hello_bytes_max) return std::nullopt;
  hello items;
  while (!bytes.empty()) {
    auto name = take_text(bytes);
    if (!name) return std::nullopt;
    auto value = take_text(bytes);
    if (!value) return std::nullopt;
    items.emplace_back(std::move(*name), std::move(*value));
  }
  return items;
}

std::optional<std::string_view> find_item(const hello& items, std::string_view name) {
  for (const auto& [key, value] : items)
    if (key == name) return value;
  return std::nullopt;
}

std::optional<std::string> first_disagreement(const hello& mine, const hello& theirs, const std::string& their_name) {
  bool common = false;
  for (const auto& [name, value] : mine) {
    common = common || name == first_common_item;
    if (!common) continue;
    const auto other = find_item(theirs, name);
    if (other == value) continue;
    return fmt::format("{} is {} here and {} at {}; the same build is needed everywhere", name, value,
                       other ? std::string(*other) : "unknown", their_name);
  }
  if (theirs.size() > mine.size())
    return fmt::format("{} is {} at {} and unknown here; the same build is needed everywhere", theirs.back().first,
                       theirs.back().second, their_name);
  return std::nullopt;
}

}  // namespace troupe::links
