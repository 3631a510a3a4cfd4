// Hellos: named texts with which two processes describe themselves before anything else, compared in order.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::links {

/// The names and values of a hello; its encoding has at most `hello_bytes_max` bytes.
using hello = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t hello_bytes_max = 64 * 1024;

/// Encodes each item as the name's length (u16, little-endian), the name, the value's length (u16), the value.
std::vector<std::byte> encode(const hello& items);

/// Decodes a hello; null if `bytes` are not one.
std::optional<hello> decode_hello(std::span<const std::byte> bytes);

/// Returns the value of the first item of that name, or null.
std::optional<std::string_view> find_item(const hello& items, std::string_view name);

/// Items from this one on must match on both sides.
constexpr std::string_view first_common_item = "version";

/// Returns the first item that must match and does not, with its value on both sides; null if all match. `their_name`
/// names the other side, as in `the master`.
std::optional<std::string> first_disagreement(const hello& mine, const hello& theirs, const std::string& their_name);

}  // namespace troupe::links
