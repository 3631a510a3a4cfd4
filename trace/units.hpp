// Times, sizes and counts as people read them.

#pragma once

#include <cstdint>
#include <string>

#include "trace/recording.hpp"

namespace troupe::trace {

/// Three digits or so: 950 ns, 12.3 us, 41.7 ms, 3.21 s.
std::string time_text(nanoseconds time);

/// 950 B, 1.2 KiB, 33.4 MiB.
std::string size_text(std::uint64_t bytes);

/// 1234567 as 1,234,567.
std::string count_text(std::uint64_t count);

/// `part` of `whole` as 12.3 %; - if `whole` is nothing.
std::string share_text(nanoseconds part, nanoseconds whole);

}  // namespace troupe::trace
