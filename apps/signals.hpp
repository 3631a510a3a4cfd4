// SIGINT and SIGTERM: the first one asks the run to stop, the second ends the program. SIGUSR1 asks for a diagnosis.

#pragma once

#include <sys/types.h>

#include "cluster/run.hpp"

namespace troupe::apps {

/// From now on the first SIGINT or SIGTERM makes this request, and the second ends the program with exit code 130.
/// The request lives as long as the program, so a signal may come at any time.
///
/// Handlers rather than a waiting thread: libraries start threads of their own before main, with the signals
/// unblocked, and any of those may be the one that the system picks.
const cluster::stop_request& stop_on_signals();

/// Whether a SIGUSR1 has come since the last call. From any thread.
bool diagnosis_wanted();

/// The same request made by the program itself.
void stop_now();

/// The second signal ends this child too. At most `children_max` are remembered.
void kill_when_interrupted(pid_t child);
/// It has been waited for: its number may be somebody else's from now on.
void forget_child(pid_t child);

}  // namespace troupe::apps
