// Folders for traces of runs for which the user has named none: among the temporary files, which all users share.

#pragma once

#include <filesystem>
#include <string>

#include "base/result.hpp"

namespace troupe::trace {

struct run_folder {
  std::filesystem::path path;
  std::string warning;  ///< why it is not in the user's own folder; empty: it is
};

/// Makes the folder of a run that begins now, for this user alone: `place`/troupe-UID/YYYYMMDD-HHMMSS-PID, where
/// `place` is the system's folder for temporary files. Another user may have made troupe-UID; if it is a link, not a
/// folder, or not this user's, the folder is a new one beside it instead, troupe-UID-XXXXXX, with an unpredictable
/// name.
///
/// Removes all but the newest 16 folders that earlier runs have left in troupe-UID: only folders of this user that are
/// named as above and hold rings, all from processes that ran on this host since it was started and have ended.
///
/// The newest are found by a clock that is never set, not by their names, which have the local time of their runs.
///
/// Errors, one line for the user: `place` is not a folder, or none can be made in it.
result<run_folder> make_run_folder(const std::filesystem::path& place);

/// Keeps at most 64 rings that the attempts at a run have left in its folder: removes those of the oldest attempts,
/// each attempt as a whole and only if all its processes have ended, as above; never the newest attempt's.
void remove_old_rings(const std::filesystem::path& folder);

}  // namespace troupe::trace
