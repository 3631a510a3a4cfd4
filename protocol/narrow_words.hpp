// 64-bit words without the zero bytes that all of a blob's end in: row numbers and offsets rarely need more than three.

#pragma once

#include <cstddef>

#include "protocol/blob.hpp"

namespace troupe::protocol {

/// The least bytes of a blob that is worth a look.
inline constexpr std::size_t narrowed_blob_bytes_min = 1024;

/// Returns whether words may travel with so many of their eight bytes: 2, 3 or 4.
constexpr bool is_narrow(std::size_t width) { return width >= 2 && width <= 4; }

/// Returns how many bytes of each word tell all of a blob in host memory: 2, 3 or 4; 8 if it needs more, is small or
/// longer than a blob may be, or is not made of whole words at their alignment.
std::size_t width_of(const msg::blob& words);

/// Returns the first `width` bytes of each word. Requires: they tell all of it.
msg::blob narrowed(const msg::blob& words, std::size_t width);

/// Returns the words that `narrowed` was given. Requires: narrow.size() is a multiple of a narrow `width`.
msg::blob widened(const msg::blob& narrow, std::size_t width);

}  // namespace troupe::protocol
