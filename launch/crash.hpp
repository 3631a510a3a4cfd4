// What a process says when it crashes: where its trace is.

#pragma once

#include <string>

namespace troupe::launch {

/// From now on a signal that ends this process for an error of the program (SIGSEGV, SIGABRT and the like) first writes
/// this line to stderr; "": no more. Signals that have a handler already keep it. Thread: one at a time.
void say_if_crashed(const std::string& line);

}  // namespace troupe::launch
