// What keeps a process from its end after a wish to stop, as text.

#pragma once

#include <caf/actor_system.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/stop_grace.hpp"
#include "protocol/messages.hpp"

namespace troupe::nodes {

/// A run as its master has told it.
struct told_run {
  msg::run_status status;
  bool has_functions = false;  ///< its trainers run a program's function, no job
};

/// The run that this process leads, which `ask_led_run` asks while this object lives. At most one at a time counts.
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

/// Asks how it is. Null: there is no such run, or no answer within `timeout`. Thread: any.
std::optional<told_run> ask_led_run(std::chrono::milliseconds timeout);

/// Says what has not returned, the code first that other actors wait for: the code of this process that is open `now`
/// and was so some time `before`, and actors of other processes. Empty: nothing is known.
std::string words_of_unreturned(const std::vector<open_code>& before, const std::vector<open_code>& now,
                                const std::optional<told_run>& run);

}  // namespace troupe::nodes
