// How the contents of two messages differ.

#pragma once

#include <string>
#include <string_view>

#include "analysis/trace.hpp"

namespace troupe::analysis {

/// What the first part that differs is, and how many more do; empty: none. Parts that one lacks differ. `in_a`, `in_b`:
/// how the text names the two, as in "in A".
std::string compare_parts(const trace::content& a, const trace::content& b, std::string_view in_a,
                          std::string_view in_b);

}  // namespace troupe::analysis
