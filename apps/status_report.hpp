// How a run is, for people and as JSON.

#pragma once

#include <string>

#include "protocol/status.hpp"

namespace troupe::apps {

/// A few figures, a table of the run's servers and trainers, and a line for each wait.
std::string status_text(const msg::run_status& now);

/// The same as one event (docs/run-many-hosts.md).
std::string status_event(const msg::run_status& now);

}  // namespace troupe::apps
