// Ends this process if its part in a run does not end in time: a handler that never returns would keep the actor
// system, and with it the process, alive forever.

#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace troupe::nodes {

/// Thread: one.
class end_deadline {
 public:
  /// `report` is called on another thread with the error line, right before the process ends. Throws
  /// `std::system_error` if no thread can be created.
  explicit end_deadline(std::function<void(const std::string&)> report);
  /// Cancels the deadline.
  ~end_deadline();
  end_deadline(const end_deadline&) = delete;
  end_deadline& operator=(const end_deadline&) = delete;

  /// Ends the process with exit code 1 after `time`, unless this object is destroyed before. Requires: called once.
  void set(std::chrono::milliseconds time, std::string line);
  /// Ends the process in the same way at once.
  [[noreturn]] void end(const std::string& line) const;

 private:
  void wait();

  const std::function<void(const std::string&)> report_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_come_ = false;
  std::optional<std::chrono::steady_clock::time_point> due_;
  std::string line_;
  std::thread thread_;
};

}  // namespace troupe::nodes
