// This start of this machine, as traces name it, and its processes.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::trace {

/// Tells one start of one machine from all others: clocks of its processes are the same clock.
std::string this_boot();

/// Whether process `pid` of that boot is there. False if the boot is none of this machine's now.
bool is_there(std::string_view boot, std::uint32_t pid);

}  // namespace troupe::trace
