// Where the traces of runs go for which the user has named no folder: among the temporary files, which all users share.

#pragma once

#include <filesystem>
#include <string>

#include "base/result.hpp"

namespace troupe::trace {

struct run_folder {
  std::filesystem::path path;
  std::string warning;  ///< why it is not among the user's others; empty: it is
};

/// Makes the folder of a run that begins now, for this user alone: `place`/troupe-UID/YYYYMMDD-HHMMSS-PID, where
/// `place` is the system's folder for temporary files. Somebody else may have made troupe-UID; if it is a link, no
/// folder or not the user's, the folder is a new one beside it instead, troupe-UID-XXXXXX, whose name nobody can know
/// before.
///
/// Of what earlier runs have left in troupe-UID, removes all but the newest 16: only folders of this user that are
/// named as above, hold rings, and whose rings are all of processes of this host, since it was started, that are gone.
///
/// Newest by a clock that is never set, whatever their names say, which have the time of day and zone of their runs.
///
/// Errors, one line for the user: `place` is no folder, or none can be made in it.
result<run_folder> make_run_folder(const std::filesystem::path& place);

/// Keeps at most 64 rings that the attempts at a run have left in its folder: removes those of the oldest attempts,
/// each attempt as a whole and only if all its processes are gone, as above; never the newest of them.
void remove_old_rings(const std::filesystem::path& folder);

}  // namespace troupe::trace
