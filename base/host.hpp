// This machine, and its processes.

#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// The machine's name; "unnamed" if the system does not tell it.
std::string host_name();

/// Tells one start of this machine from all others.
std::string boot_id();

/// Whether process `pid` is there, whoever it belongs to.
bool is_alive(std::uint32_t pid);

}  // namespace troupe
