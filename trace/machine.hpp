// This machine, as traces name it.

#pragma once

#include <string>

namespace troupe::trace {

std::string this_host();

/// Tells one start of one machine from all others: clocks of its processes are the same clock.
std::string this_boot();

}  // namespace troupe::trace
