// Whether there is room for memory that a library takes by itself, without a way to refuse it.

#pragma once

#include <cstddef>

namespace troupe {

/// Returns whether the system gives this process `bytes` of memory now, in one piece: within its limits (ulimit -v,
/// ulimit -d), and within what the machine promises where it promises no more than it has. Takes nothing.
bool has_address_space(std::size_t bytes);

}  // namespace troupe
