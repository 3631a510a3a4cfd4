// Parts of a recording, for who has no room for all of it.

#pragma once

#include <cstddef>

#include "analysis/trace.hpp"

namespace troupe::analysis {

/// What ends after `begin` and begins before `end`; all else is as in `of`, but for the contents.
recording part_of(const recording& of, nanoseconds begin, nanoseconds end);

/// The `most` events that begin last.
recording newest_of(const recording& of, std::size_t most);

}  // namespace troupe::analysis
