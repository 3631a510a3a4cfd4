// A run's status as text and as JSON.

#pragma once

#include <string>

#include "protocol/status.hpp"

namespace troupe::apps {

/// Returns figures, a table of servers and trainers, and a line for each wait.
std::string status_text(const msg::run_status& now);

/// Returns the same as an event (docs/run-many-hosts.md).
std::string status_event(const msg::run_status& now);

}  // namespace troupe::apps
