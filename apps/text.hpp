// Text for people: numbers, durations and paragraphs as the help, the tables and the progress line show them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// 1234567 as "1,234,567".
std::string grouped(std::uint64_t value);

/// Three digits or so with a unit prefix: 950, 14.2k, 1.85M. "-" if not finite.
std::string compact(double value);

/// Digits that suit a duration: 1.2 ms, 3.21 s, 2 min 05 s, 1 h 02 min.
std::string duration(double seconds);

/// Hours, minutes and seconds as a clock shows them, of one width while they run down: 0:07, 12:05, 1:02:05.
std::string clock_time(double seconds);

/// `value` with `digits` decimals; "-" where there is none.
std::string fixed(std::optional<double> value, int digits);

/// A loss or an error: six significant digits; "-" where there is none.
std::string significant(std::optional<double> value);

/// `text` broken at blanks into lines of at most `width` characters; existing line ends stay.
std::string wrapped(std::string_view text, std::size_t width);

/// `text` as a shell takes it for one word; control characters are shown escaped.
std::string shell_word(const std::string& text);

/// Columns of the terminal `descriptor`, else of the environment's COLUMNS, else `otherwise`.
std::size_t terminal_columns(int descriptor, std::size_t otherwise);

}  // namespace troupe
