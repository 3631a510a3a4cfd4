// SIGINT and SIGTERM: the first one asks the run to stop, the second ends the program. SIGUSR1 asks for a diagnosis.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

#include "base/stop_request.hpp"
#include "cluster/launch/console.hpp"

namespace troupe::launch {

/// Installs handlers: the first SIGINT or SIGTERM makes the returned request, the second ends the program with exit
/// code 130. The request lives as long as the program.
///
/// It uses handlers instead of a waiting thread, because libraries start threads before main with these signals
/// unblocked, and the system may deliver a signal to any of them.
const stop_request& stop_on_signals();

/// The same; the first signal is also reported at once, as a note of `out`.
const stop_request& stop_on_signals(const console& out);

/// Returns whether SIGUSR1 has arrived since the last call. Thread: any.
bool diagnosis_wanted();

/// Makes the same request without a signal.
void stop_now();

/// From now on the first signal makes the program write `line` and end with exit code 1 after `time`, unless it has
/// ended before; an empty `line` turns that off. For programs that continue after their run: it needs no thread. No
/// effect if others handle SIGALRM.
void end_by_next_signal(std::chrono::seconds time, const std::string& line);

/// Ends the program at once, and the children of `kill_when_interrupted`, as the second signal does. Thread: any.
[[noreturn]] void quit_now(int code);

/// Makes the second signal also kill this child. At most `children_max` are remembered.
void kill_when_interrupted(pid_t child);
/// Call it after wait(2) for the child, since its pid may then be reused.
void forget_child(pid_t child);

}  // namespace troupe::launch
