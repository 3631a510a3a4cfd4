// Text for terminals and shells.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe::apps {

/// `text` broken at blanks into lines of at most `width` characters; existing line ends stay.
std::string wrapped(std::string_view text, std::size_t width);

/// `text` as a shell takes it for one word; control characters are shown escaped.
std::string shell_word(const std::string& text);

/// Columns of the terminal `descriptor`, else of the environment's COLUMNS, else `otherwise`.
std::size_t terminal_columns(int descriptor, std::size_t otherwise);

}  // namespace troupe::apps
