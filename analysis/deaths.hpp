// Who has ended before the run was over.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/trace.hpp"

namespace troupe::analysis {

/// The end of a process that said nothing of it, or of an actor that ended by an error.
struct death {
  std::uint32_t process = 0;
  std::optional<std::uint16_t> actor;  ///< nothing: the process with all in it
  trace::nanoseconds when = 0;         ///< an actor's exit, a process's last record
  std::uint16_t code = 0;              ///< of an actor's error
};

/// All that the recording shows, the first one first: it is why the later ones died, if these are of one run. A process
/// counts as dead if it has not said how it ended while others have, later, or live on, or said that the link to it is
/// down; or if it alone says that it failed. Where all processes were killed nobody died first, and what happened in a
/// process that ended cleanly is no death.
std::vector<death> find_deaths(const trace::recording& run);

/// `server 1 (pid 123)`
std::string name_of(const trace::recording& run, const death& what);

}  // namespace troupe::analysis
