// Ends a process that was asked to stop and does not come to its end.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "launch/console.hpp"

namespace troupe::launch {

enum class stopping_part : std::uint8_t {
  leader,  ///< it ends whatever has not returned
  member   ///< its leader decides; it ends itself if its own code does not come back
};

/// After the first wish to stop, ends the process with exit code 1 and an error that names what has not returned, once
/// `stop_grace` is over: with its children, and without any further wait. The first object of a process counts, as long
/// as it lives.
class stop_deadline {
 public:
  /// `out`: whose name and form the error has.
  stop_deadline(const console& out, stopping_part part);
  /// Once there is a wish, the deadline stays: it is the process that has to end. Without one, main may continue, and a
  /// later signal ends it.
  ~stop_deadline();
  stop_deadline(const stop_deadline&) = delete;
  stop_deadline& operator=(const stop_deadline&) = delete;

 private:
  class watch;
  std::shared_ptr<watch> watch_;  ///< null: another one counts
  std::thread thread_;
};

/// Adds a line for people to that error; empty: none. Thread: any.
void say_if_overdue(const std::string& line);

}  // namespace troupe::launch
