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
struct told_run {
  msg::run_status status;
  bool has_functions = false;  ///< its trainers run a program's function, not a job
};

/// Registers the run that this process leads, which `ask_led_run` asks, while this object lives. Only one at a time
/// counts.
class led_run {
 public:
  /// Requires: both outlive it.
  led_run(caf::actor_system& system, const msg::master_actor& boss, bool has_functions);
  ~led_run();
  led_run(const led_run&) = delete;
  led_run& operator=(const led_run&) = delete;
};

/// Whether there is such a run. Thread: any.
bool has_led_run();

/// Asks for its status. Null: there is no such run, or no answer within `timeout`. Thread: any.
std::optional<told_run> ask_led_run(std::chrono::milliseconds timeout);

/// Describes what has not returned, first the code for which other actors wait: code of this process that is open `now`
/// and was some time `before`, and actors of other processes. Empty: nothing is known.
std::string words_of_unreturned(const std::vector<open_code>& before, const std::vector<open_code>& now,
                                const std::optional<told_run>& run);

}  // namespace troupe::nodes
