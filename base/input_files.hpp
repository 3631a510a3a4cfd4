// The files that a command reads: data, job file, token, keys, recordings, the checkpoint that it resumes from. Each
// reader remembers them here, and whatever writes a file that a user has named asks first, so that no command
// overwrites its own input, whatever the names, links and options are.

#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"

namespace troupe {

/// Remembers that this process reads the file at `path` (links are followed), by its device and inode, for as long as
/// it is there. `what` says in messages what the file is, as in "the job file". Files that are not regular are passed
/// over. Thread: any.
void remember_input(const std::string& path, const std::string& what);

/// Returns what the file at `path`, or the open file, is to this process as an input, as in "the job file"; null if it
/// is not one. Thread: any.
std::optional<std::string> input_at(const std::string& path);
std::optional<std::string> input_behind(int descriptor);

/// Refuses to write to `path` if this process reads the file there. The fault holds only the reason.
result<void> check_output(const std::string& path);

}  // namespace troupe
