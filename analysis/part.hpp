// Parts of a recording, for who has no room for all of it.

#pragma once

#include <cstddef>

#include "analysis/trace.hpp"

namespace troupe::analysis {

/// What ends after `begin` and begins before `end`; all else is as in `of`, but for the contents.
trace::recording part_of(const trace::recording& of, trace::nanoseconds begin, trace::nanoseconds end);

/// The `most` events that begin last.
trace::recording newest_of(const trace::recording& of, std::size_t most);

}  // namespace troupe::analysis
