// JSON with texts from the system: paths, host names, variables and command lines may contain bytes that are not UTF-8,
// which JSON does not allow. Such a byte becomes the four characters \xff.

#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace troupe {

/// Returns a value as JSON text for other programs. A byte and an original \xff look the same there.
std::string json_text(const boost::json::value& what);

/// Returns a value as JSON text that `parse_lossless_json` reads back byte for byte: a backslash before an x becomes
/// \x5c, so that every \x is an escape. For exchange between Troupe's processes and files.
std::string lossless_json(const boost::json::value& what);

/// Reads the text of `lossless_json`. Errors, without the file's name: it is not JSON, or nested too deep.
result<boost::json::value> parse_lossless_json(std::string_view text);

}  // namespace troupe
