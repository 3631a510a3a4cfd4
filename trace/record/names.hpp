// The names of the enum values in records.

#pragma once

#include <string_view>

#include "trace/record/record.hpp"

namespace troupe::trace {

enum class mode : std::uint8_t;

std::string_view name_of(mode what);
std::string_view name_of(kind what);
std::string_view name_of(range_name what);
std::string_view name_of(metric_name what);
std::string_view name_of(drop_reason what);

}  // namespace troupe::trace
