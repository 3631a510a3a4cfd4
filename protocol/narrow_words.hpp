// 64-bit words without the high zero bytes that all words of a blob share: row numbers and offsets rarely need more
// than three bytes.

#pragma once

#include <cstddef>

#include "protocol/blob.hpp"

namespace troupe::protocol {

/// The smallest size of a blob that is searched.
inline constexpr std::size_t narrowed_blob_bytes_min = 1024;

/// Returns whether words may travel with `width` of their eight bytes: 2, 3 or 4.
constexpr bool is_narrow(std::size_t width) { return width >= 2 && width <= 4; }

/// Returns how many bytes each word of a blob in host memory needs: 2, 3 or 4; 8 if it needs more, is small or longer
/// than a blob may be, or does not consist of aligned whole words.
std::size_t width_of(const msg::blob& words);

/// Returns the lowest `width` bytes of each word. Requires: the other bytes are zero.
msg::blob narrowed(const msg::blob& words, std::size_t width);

/// Returns the words that were given to `narrowed`. Requires: narrow.size() is a multiple of a narrow `width`.
msg::blob widened(const msg::blob& narrow, std::size_t width);

}  // namespace troupe::protocol
