// Reports where the trace is when this process crashes.

#pragma once

#include <string>

namespace troupe::launch {

/// From now on a signal that means a crash (SIGSEGV, SIGABRT and the like) first writes this line to stderr; "" turns
/// that off. Signals that have a handler already keep it. Thread: one at a time.
void say_if_crashed(const std::string& line);

}  // namespace troupe::launch
