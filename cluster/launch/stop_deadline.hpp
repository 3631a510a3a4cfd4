// Ends a process that was asked to stop and does not end.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "cluster/launch/console.hpp"

namespace troupe::launch {

enum class stopping_part : std::uint8_t {
  leader,  ///< it ends, even if other code has not returned
  member   ///< its leader decides; it ends itself if its own code does not return
};

/// Once `stop_grace` has passed after the first stop request, ends the process and its children, without further
/// waiting, with exit code 1 and an error that names what has not returned. Only the first object of a process has an
/// effect, while it lives.
class stop_deadline {
 public:
  /// `out` decides the program's name and the form in the error.
  stop_deadline(const console& out, stopping_part part);
  /// After a stop request the deadline stays: the process must end. Without one, main may continue, and a later signal
  /// ends it.
  ~stop_deadline();
  stop_deadline(const stop_deadline&) = delete;
  stop_deadline& operator=(const stop_deadline&) = delete;

 private:
  class watch;
  std::shared_ptr<watch> watch_;  ///< null: another object has the effect
  std::thread thread_;
};

/// Adds a line for the user to that error; empty: none. Thread: any.
void say_if_overdue(const std::string& line);

}  // namespace troupe::launch
