// Text that somebody else wrote, such as a peer, a file or a file's name, made harmless before a terminal shows it.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

/// `text` without anything that could move a cursor, end a line or change the order in which letters are shown. Escaped
/// are control characters (as \x1b; those beyond ASCII as \u0085), line separators and bidirectional marks (as \u202e),
/// and each byte that is not UTF-8 (as \xff). Of more than `limit` bytes the first are shown, whole characters, and
/// "...".
std::string harmless(std::string_view text, std::size_t limit = std::string_view::npos);

/// The same with a blank for each line end and tab.
std::string one_line(std::string_view text, std::size_t limit = std::string_view::npos);

/// Bytes of the UTF-8 sequence at the start of `text`, which must not be empty; 0 if there is no valid one (RFC 3629).
std::size_t utf8_length(std::string_view text);

/// Where the first byte of `text` stands that is not UTF-8; npos if all of it is.
std::size_t find_non_utf8(std::string_view text);

}  // namespace troupe
