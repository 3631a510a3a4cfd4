// `troupe trace replay`: repeats a recorded run, or one actor of it, in the recorded order.

#pragma once

#include <string>

#include "apps/console.hpp"
#include "base/result.hpp"
#include "trace/recording.hpp"

namespace troupe::apps {

/// Repeats the whole run in this process and compares every training message with the recorded one. exit_failed: a
/// message or the final weights differ. Faults of kind input: it cannot be replayed; of kind run: it ended by another
/// error.
result<int> replay_run(const trace::recording& recorded, console& out);

/// Repeats `actor` alone on the calling thread, and compares its messages with the recorded ones. Returns as above.
result<int> replay_one(const trace::recording& recorded, const std::string& actor, console& out);

/// Replaces this program by a debugger that runs it with the same arguments without --debug, and stops before each
/// message of the actor. Returns only on failure, with kind input.
fault start_debugger();

}  // namespace troupe::apps
