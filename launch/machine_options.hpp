// Threads and devices of a process.

#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "actors/batches_ahead.hpp"
#include "actors/compute_devices.hpp"
#include "base/result.hpp"

namespace troupe::launch {

struct machine_options {
  std::size_t threads = 0;  ///< 0: as many as cores
  actors::compute_devices devices;
  actors::batch_threads_wish batch_threads;
};

/// Reads the options of the sets `machine`, `batches` and `graphs`, and finds the requested devices.
result<machine_options> read_machine_options(const std::function<std::optional<std::string>(const char*)>& text_of);

}  // namespace troupe::launch
