// The input files of a command: data, job file, token, keys, recordings, the checkpoint that it resumes from. Each
// reader records them here, and writers of files that a user has named check first, so that no command overwrites its
// own input, whatever the names, links and options are.

#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"

namespace troupe {

/// Records that this process reads the file at `path` (following links), by device and inode, for as long as it exists.
/// `what`: names the file in messages, such as "the job file". Ignores files that are not regular. Thread: any.
void remember_input(const std::string& path, const std::string& what);

/// Returns the name of the file at `path`, or of the open file, as an input of this process, such as "the job file";
/// null if it is not an input. Thread: any.
std::optional<std::string> input_at(const std::string& path);
std::optional<std::string> input_behind(int descriptor);

/// Refuses to write to `path` if this process reads that file. The fault contains only the reason.
result<void> check_output(const std::string& path);

}  // namespace troupe
