// Text: escapes foreign text (from peers, files, file names) for a terminal, splits text, and builds parts of errors.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped.hpp"

namespace troupe {

/// Escapes characters that could move a cursor, end a line or change the order of letters: control characters (as \x1b;
/// those beyond ASCII as \u0085), line separators and bidirectional marks (as \u202e), and bytes that are not UTF-8 (as
/// \xff). Truncates to `limit` bytes of whole characters and "...".
std::string harmless(std::string_view text, std::size_t limit = std::string_view::npos);

/// The same, with line ends and tabs as blanks.
std::string one_line(std::string_view text, std::size_t limit = std::string_view::npos);

/// Returns the length in bytes of the UTF-8 sequence at the start of `text`; 0 if it is invalid (RFC 3629). Requires:
/// `text` is not empty.
std::size_t utf8_length(std::string_view text);

/// Returns the position of the first byte that is not UTF-8, or npos.
std::size_t find_non_utf8(std::string_view text);

/// Returns `text` for a one-line message: escaped, at most about `limit` bytes, '' if it is empty.
std::string printable(std::string_view text, std::size_t limit = 80);

/// Returns a path for a one-line message, never truncated, since the ends of paths differ.
std::string printable_path(std::string_view path);

/// Splits `text` at the separators; one part, `text` itself, without any.
std::vector<std::string_view> split(std::string_view text, char separator);

/// "a, b or c".
std::string alternatives(const std::vector<std::string>& names);

/// Returns the names in a table; `name` reads a row's.
template <class Table, class Name>
std::vector<std::string> names_in(const Table& table, Name name) {
  return mapped<std::string>(table, name);
}

/// Returns the candidate with the smallest edit distance to `name`; "" if there is no candidate.
std::string nearest(const std::string& name, const std::vector<std::string>& candidates);

/// "the nearest is b, and there are a, b or c".
std::string suggestions(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace troupe
