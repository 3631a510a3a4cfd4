// Values as JSON text.

#pragma once

#include <string>
#include <string_view>

namespace troupe {

/// `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

/// `value` such that it reads back as the same bits; null if it is not finite.
std::string json_number(double value);

}  // namespace troupe
