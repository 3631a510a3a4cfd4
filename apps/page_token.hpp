// The token of a live page, from where other users of the machine cannot read it.

#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"

namespace troupe::apps {

/// Reads it from `file`, if given, else from the environment variable TROUPE_PAGE_TOKEN; empty if there is neither. A
/// file that others than its owner may read is refused. Faults of kind input do not show the token.
result<std::string> read_page_token(const std::optional<std::string>& file);

}  // namespace troupe::apps
