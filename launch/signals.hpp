// SIGINT and SIGTERM: the first one asks the run to stop, the second ends the program. SIGUSR1 asks for a diagnosis.

#pragma once

#include <sys/types.h>

#include "nodes/run.hpp"

namespace troupe::launch {

/// Installs handlers: the first SIGINT or SIGTERM makes the returned request, the second ends the program with exit
/// code 130. The request lives as long as the program.
///
/// It uses handlers instead of a waiting thread, because libraries start threads before main with these signals
/// unblocked, and the system may deliver a signal to any of them.
const nodes::stop_request& stop_on_signals();

/// Returns whether SIGUSR1 has arrived since the last call. Thread: any.
bool diagnosis_wanted();

/// Makes the same request without a signal.
void stop_now();

/// Makes the second signal also kill this child. At most `children_max` are remembered.
void kill_when_interrupted(pid_t child);
/// Call it after wait(2) for the child, since its pid may then be reused.
void forget_child(pid_t child);

}  // namespace troupe::launch
