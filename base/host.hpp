// This machine, and its processes.

#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// Returns the host name; "unnamed" if the system has none.
std::string host_name();

/// Returns the boot id, which differs for each start of this machine.
std::string boot_id();

/// Returns whether process `pid` exists, of any user.
bool is_alive(std::uint32_t pid);

}  // namespace troupe
