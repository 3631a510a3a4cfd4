// This machine, and its processes.

#pragma once

#include <cstdint>
#include <string>

namespace troupe {

/// Returns the host name; "unnamed" if the system has none.
std::string host_name();

/// Returns the host name for use in a file's name: it may contain any bytes, even a slash, so all except letters,
/// digits, dots, dashes and underscores become underscores.
std::string host_name_in_files();

/// Returns the boot id, which changes at each start of this machine.
std::string boot_id();

/// Returns whether process `pid` exists, of any user.
bool is_alive(std::uint32_t pid);

}  // namespace troupe
