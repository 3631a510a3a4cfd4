// Text for terminals and shells.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe::launch {

/// Wraps `text` at spaces into lines of at most `width` characters; keeps line ends.
std::string wrapped(std::string_view text, std::size_t width);

/// Quotes `text` as one word of a shell; escapes control characters.
std::string shell_word(const std::string& text);

/// Returns what is wrong with an option's folder: `--save DIR: why`. If `why` begins with the folder's name, that is
/// not repeated.
std::string about_folder(const char* option, const std::string& folder, const std::string& why);

/// Returns the columns of the terminal `descriptor`, else of the variable COLUMNS, else `otherwise`.
std::size_t terminal_columns(int descriptor, std::size_t otherwise);

}  // namespace troupe::launch
