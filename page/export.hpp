// Parts of a recording that another tool can take: a browser has no room for a timeline of everything.

#pragma once

#include <cstddef>

#include "trace/recording.hpp"

namespace troupe::page {

/// Records that a timeline has at most: some 100 MiB of JSON.
constexpr std::size_t exported_most = 300'000;

/// What ends after `begin` and begins before `end`; all else is as in `of`, but for the contents.
trace::recording part_of(const trace::recording& of, trace::nanoseconds begin, trace::nanoseconds end);

/// The `most` events that begin last.
trace::recording newest_of(const trace::recording& of, std::size_t most);

}  // namespace troupe::page
