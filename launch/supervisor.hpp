// The supervisor of a run: the process that a user has started. It holds what must outlive an attempt (port, lock,
// stdout, the list of what was lost), and starts the processes again that are lost, the one that leads among them.

#pragma once

#include <cstdint>

#include "launch/console.hpp"

namespace troupe::launch {

/// The exit code by which an attempt tells its supervisor that the environment has ended it.
constexpr int exit_again = 75;

/// Makes this process a supervisor, and returns in a copy of it, which leads the run's first attempt; and in further
/// copies, one after the other, as long as attempts fail for reasons of the environment and at most `restarts` have
/// failed since the last new checkpoint. This process never returns: it ends as the last attempt does. Copies are
/// killed when it ends. The fault, kind input: this process has several threads, and cannot be copied.
result<void> supervise(std::uint64_t restarts, console& out);

}  // namespace troupe::launch
