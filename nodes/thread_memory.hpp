// What the worker threads of an actor system take besides the numbers of a run, and whether it is there: threads,
// stacks, heaps, and buffers of matrix products.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"

namespace troupe::nodes {

/// Returns the number of worker threads; `wanted`: 0: one per core.
std::size_t worker_threads(std::size_t wanted);

/// Refuses more worker threads than the system lets the process start: the actor system would crash. Where address
/// space is limited, it has the allocator share heaps among threads: each takes 64 MiB of it. Requires: no threads of
/// an actor system run yet.
result<void> check_threads(std::size_t wanted);

/// Takes buffers for matrix products on so many threads, as long as `room` bytes and the threads' stacks stay besides.
/// With fewer buffers products wait for each other. Refuses threads for which there is no buffer at all.
result<void> prepare_products(std::size_t wanted, std::uint64_t room);

/// Refuses what `prepare_products` would refuse in a process like this one, and takes nothing.
result<void> check_products(std::size_t wanted, std::uint64_t room);

}  // namespace troupe::nodes
