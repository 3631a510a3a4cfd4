// Ends this process where the end of its part in a run does not come: a handler that never returns keeps an actor
// system, and with it the process, for ever.

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
  /// `tell` is called on another thread with the error line, right before the process ends. Throws `std::system_error`
  /// if the system grants no thread: later would be too late.
  explicit end_deadline(std::function<void(const std::string&)> tell);
  /// What was awaited has come.
  ~end_deadline();
  end_deadline(const end_deadline&) = delete;
  end_deadline& operator=(const end_deadline&) = delete;

  /// Ends the process with exit code 1 after `time`, unless this object is destroyed before. Requires: called once.
  void set(std::chrono::milliseconds time, std::string line);
  /// Ends the process so at once.
  [[noreturn]] void end(const std::string& line) const;

 private:
  void wait();

  const std::function<void(const std::string&)> tell_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_come_ = false;
  std::optional<std::chrono::steady_clock::time_point> due_;
  std::string line_;
  std::thread thread_;
};

}  // namespace troupe::nodes
