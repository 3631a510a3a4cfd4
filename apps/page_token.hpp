// The token of a live page, from places that other users of the machine cannot read.

#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"

namespace troupe::apps {

/// Reads the token from `file`, else from the variable TROUPE_PAGE_TOKEN; empty without either. Refuses a file that
/// users other than its owner may read. Faults, of kind input, do not contain the token.
result<std::string> read_page_token(const std::optional<std::string>& file);

}  // namespace troupe::apps
