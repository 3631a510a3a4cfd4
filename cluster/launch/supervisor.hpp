// The supervisor of a run: the process that a user has started. It holds what must outlive an attempt (port, lock,
// stdout, the history of losses), and restarts lost processes, including the leading one.

#pragma once

#include <cstdint>

#include "cluster/launch/console.hpp"

namespace troupe::launch {

/// The exit code of an attempt that the environment has ended.
constexpr int exit_again = 75;

/// Makes this process a supervisor, and returns in a copy of it, which leads the run's first attempt; and in further
/// copies, one after another, while attempts fail because of the environment and at most `restarts` have failed since
/// the last new checkpoint. The supervisor never returns: it ends as the last attempt does. Copies are killed when it
/// ends. Fault of kind input: this process has several threads, and cannot be copied.
result<void> supervise(std::uint64_t restarts, console& out);

}  // namespace troupe::launch
