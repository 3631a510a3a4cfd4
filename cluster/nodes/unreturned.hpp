// Describes what keeps a process from ending after a stop request.

#pragma once

#include <caf/actor_system.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/stop_grace.hpp"
#include "protocol/messages.hpp"

namespace troupe::nodes {

/// A run as its master reports it.
struct reported_run {
  msg::run_status status;
  bool has_functions = false;  ///< its trainers run a program's function, not a job
};

/// Registers the run that this process leads, which `ask_leading_master` asks, while this object lives. Only one at a
/// time counts.
class leading_run {
 public:
  /// Requires: both outlive it.
  leading_run(caf::actor_system& system, const msg::master_actor& boss, bool has_functions);
  ~leading_run();
  leading_run(const leading_run&) = delete;
  leading_run& operator=(const leading_run&) = delete;
};

/// Whether there is such a run. Thread: any.
bool leads_run();

/// Asks for its status. Null: there is no such run, or no answer within `timeout`. Thread: any.
std::optional<reported_run> ask_leading_master(std::chrono::milliseconds timeout);

/// Describes what has not returned, first the code for which other actors wait: code of this process that is open `now`
/// and was some time `before`, and actors of other processes. Empty: nothing is known.
std::string unreturned_functions_text(const std::vector<open_code>& before, const std::vector<open_code>& now,
                                      const std::optional<reported_run>& run);

}  // namespace troupe::nodes
