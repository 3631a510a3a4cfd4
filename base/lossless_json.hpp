// JSON whose texts come from the system: paths, host names, variables and command lines may hold bytes that are not
// UTF-8, and JSON may not. Such a byte becomes the four characters \xff of its text.

#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace troupe {

/// Returns a value as JSON text for other programs. What was a byte and what was \xff before look the same there.
std::string json_text(const boost::json::value& what);

/// Returns a value as JSON text that `parse_lossless_json` reads back byte for byte: a backslash before an x becomes
/// \x5c, so that every \x is an escape. For what Troupe's processes and files tell each other.
std::string lossless_json(const boost::json::value& what);

/// Reads what `lossless_json` wrote. Errors, without the name of the file: it is no JSON, or nested too deep.
result<boost::json::value> parse_lossless_json(std::string_view text);

}  // namespace troupe
