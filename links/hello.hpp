// What two processes tell each other about themselves before anything else: named items of text, compared in order.

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::links {

/// At most `hello_bytes_max` when encoded.
using hello = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t hello_bytes_max = 64 * 1024;

/// For each item: its name's length (u16, little-endian), the name, its value's length (u16), the value.
std::vector<std::byte> encode(const hello& items);

/// Null if `bytes` are no encoded hello.
std::optional<hello> decode_hello(std::span<const std::byte> bytes);

/// The value of the first item of that name; null if there is none.
std::optional<std::string_view> find_item(const hello& items, std::string_view name);

}  // namespace troupe::links
