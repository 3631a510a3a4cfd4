// `troupe trace replay`: a recorded run once more, in its recorded order, or one actor of it alone.

#pragma once

#include <string>

#include "apps/console.hpp"
#include "base/result.hpp"
#include "trace/recording.hpp"

namespace troupe::apps {

/// Runs the whole run once more in this process and says whether every message of training held what was recorded.
/// exit_failed: one did not, or the weights came out different. Faults of kind input: it cannot be replayed; of kind
/// run: it ended by something else.
result<int> replay_run(const trace::recording& recorded, console& out);

/// Runs `actor` alone once more, on the calling thread, and says whether what it sent is what was recorded. Likewise.
result<int> replay_one(const trace::recording& recorded, const std::string& actor, console& out);

/// Replaces this program by a debugger that starts it again with the arguments that it has, but for --debug, and stops
/// before each message of the actor. Returns only if that cannot be: kind input.
fault start_debugger();

}  // namespace troupe::apps
