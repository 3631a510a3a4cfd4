// Child processes.

#pragma once

#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace troupe {

/// How a child starts.
struct child_options {
  static constexpr int null_device = -1;

  /// The child's standard input, output and error.
  int in = null_device;
  int out = null_device;
  int err = STDERR_FILENO;
  /// Added to this process's environment as NAME=VALUE; each replaces a variable of the same name.
  std::vector<std::string> variables;
  /// Signals that wait in the child until it calls `release_signals`.
  std::vector<int> held_signals;
  /// Signals with their default action in the child, even if this process ignores them.
  std::vector<int> default_signals;
};

/// Makes the system kill this process when its parent process `parent` ends; exits at once if that has happened.
void end_with_parent(pid_t parent);

/// Lets signals reach the calling thread that were held back by `held_signals`.
void release_signals();

/// A child process. It starts with no signals blocked, except those of `held_signals`. Thread: one at a time.
class child_process {
 public:
  /// Starts the program at `path`; the first of `arguments` is its name. The fault contains the path and the system's
  /// reason. Sets SIGCHLD to its default action, because the system discards exit codes while it is ignored.
  static result<child_process> start(const std::string& path, std::vector<std::string> arguments,
                                     const child_options& options);

  /// Makes a copy of this process, as fork(2) does; returns null in the copy, which is killed when this process ends.
  /// Requires: this process has one thread. The fault holds only the system's reason.
  static result<std::optional<child_process>> fork();

  child_process(child_process&& other) noexcept;
  child_process& operator=(child_process&&) = delete;
  /// Kills the child if it still runs.
  ~child_process();

  pid_t pid() const { return pid_; }

  /// Updates the child's state; does not block.
  void poll();
  /// Blocks until the child has ended.
  void wait();
  /// Sends SIGKILL, which also ends a stopped process, and blocks until the child has ended.
  void kill();

  /// Returns whether a signal had stopped the child at the last `poll`.
  bool is_stopped() const { return stopped_; }
  bool has_ended() const { return status_.has_value(); }
  /// Returns the exit code; null if the child runs or a signal ended it.
  std::optional<int> exit_code() const;
  /// Returns the signal that ended the child; null if it runs or has exited.
  std::optional<int> signal() const;
  /// Returns the resources that the child used. Requires: it has ended.
  const rusage& used() const { return used_; }

 private:
  explicit child_process(pid_t pid) : pid_(pid) {}
  void ask(int flags);

  pid_t pid_ = -1;
  bool stopped_ = false;
  std::optional<int> status_;  ///< as returned by wait(2)
  rusage used_{};
};

}  // namespace troupe
