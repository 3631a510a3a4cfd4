// Times, sizes and counts as people read them.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

/// Formats nanoseconds with about three digits: 950 ns, 12.3 us, 41.7 ms, 3.21 s.
std::string time_text(std::int64_t nanoseconds);

/// Formats seconds: 1.2 ms, 3.21 s, 2 min 05 s, 1 h 02 min.
std::string duration_text(double seconds);

/// Formats seconds as a clock does: 0:07, 12:05, 1:02:05.
std::string clock_text(double seconds);

/// Formats a size: 950 B, 1.2 KiB, 33.4 MiB.
std::string size_text(std::uint64_t bytes);

/// Formats 1234567 as 1,234,567.
std::string count_text(std::uint64_t count);

/// Formats about three digits with a unit prefix: 950, 14.2k, 1.85M; "-" if not finite.
std::string compact(double value);

/// Formats `part` of `whole` as 12.3 %; "-" if `whole` is 0.
std::string share_text(std::int64_t part, std::int64_t whole);

/// Formats `value` with `digits` decimals; "-" for null.
std::string fixed(std::optional<double> value, int digits);

/// Formats a loss or an error with six significant digits; "-" for null.
std::string significant(std::optional<double> value);

}  // namespace troupe
