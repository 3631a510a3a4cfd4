// Where each thread of this process is right now.

#pragma once

#include <string>

namespace troupe::cluster {

/// The stacks of all threads as text, the caller's last; a thread that does not answer within a second, or at once when
/// three have passed, is named without one. Takes one real-time signal for itself. One caller at a time; others wait.
std::string stacks_of_all_threads();

}  // namespace troupe::cluster
