// Threads and devices of a process.

#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "cluster/nodes/run.hpp"

namespace troupe::launch {

using nodes::machine_options;

/// Reads the options of the sets `machine`, `batches` and `graphs`, and finds the requested devices.
result<machine_options> read_machine_options(const std::function<std::optional<std::string>(const char*)>& text_of);

}  // namespace troupe::launch
