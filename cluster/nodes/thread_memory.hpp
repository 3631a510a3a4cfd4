// Checks and reserves what the worker threads of an actor system need besides the numbers of a run: threads, stacks,
// heaps, and buffers of matrix products.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"

namespace troupe::nodes {

/// Returns the number of worker threads; `wanted`: 0: one per core.
std::size_t worker_threads(std::size_t wanted);

/// Refuses more worker threads than the system lets the process start: the actor system would crash. If address space
/// is limited, it makes threads share allocator heaps, which use 64 MiB each. Requires: no threads of an actor system
/// run yet.
result<void> check_threads(std::size_t wanted);

/// Reserves buffers for matrix products on `wanted` threads, as far as `room` bytes and the threads' stacks remain
/// free. With fewer buffers, products wait for each other. Fails if there is no room for any buffer.
result<void> prepare_products(std::size_t wanted, std::uint64_t room);

/// Fails if `prepare_products` would fail in a process like this one; reserves nothing.
result<void> check_products(std::size_t wanted, std::uint64_t room);

}  // namespace troupe::nodes
