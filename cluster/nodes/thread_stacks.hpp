// The current stacks of all threads of this process.

#pragma once

#include <string>

namespace troupe::nodes {

/// Returns the stacks as text, the caller's last. A thread that does not answer in time is named without its stack.
/// Uses one real-time signal. Thread: any; callers wait for each other.
std::string stacks_of_all_threads();

}  // namespace troupe::nodes
