// Links exchange, in their hellos, the silence after which they consider the other side dead, so that each side pings
// as often as the other one needs, and no more.

#pragma once

#include <chrono>
#include <optional>

#include "cluster/links/hello.hpp"

namespace troupe::links {

/// Adds the item.
hello with_dead_after(hello about_me, std::chrono::milliseconds dead_after);

/// Removes the item; null without it, or if it is not a number of milliseconds above 0.
std::optional<std::chrono::milliseconds> take_dead_after(hello& theirs);

/// Returns how long a link may send nothing before it pings: a fifth of the shorter timeout. `theirs`: null if unknown;
/// then it is assumed to be short.
std::chrono::milliseconds rest_between_pings(std::chrono::milliseconds mine,
                                             std::optional<std::chrono::milliseconds> theirs);

}  // namespace troupe::links
