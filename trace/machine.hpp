// The identity of this machine's current boot, as traces name it, and its processes.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::trace {

/// An id of this boot of this machine, different from all others: the processes of one boot share one clock.
std::string this_boot();

/// Whether process `pid` of that boot exists. False if it is not the current boot of this machine.
bool is_there(std::string_view boot, std::uint32_t pid);

}  // namespace troupe::trace
