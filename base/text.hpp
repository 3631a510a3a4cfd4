// Text: made harmless before a terminal shows it where somebody else wrote it, such as a peer, a file or a file's name;
// taken apart, and put together for messages.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

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

/// `text` fit for a one-line message: harmless, at most about `limit` bytes, '' if it is empty.
std::string printable(std::string_view text, std::size_t limit = 80);

/// A path fit for a one-line message: whole, since its end is what tells files apart.
std::string printable_path(std::string_view path);

/// The parts of `text` between separators; one part, `text` itself, where there is none.
std::vector<std::string_view> split(std::string_view text, char separator);

/// "a, b or c".
std::string alternatives(const std::vector<std::string>& names);

/// Of `candidates` the one that takes the fewest changes of letters to become `name`; "" if there is none.
std::string nearest(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace troupe
