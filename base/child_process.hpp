// A program that this one starts.

#pragma once

#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace troupe {

/// What a child gets from its parent.
struct child_options {
  static constexpr int null_device = -1;

  /// Descriptors that become its standard input, output and error.
  int in = null_device;
  int out = null_device;
  int err = STDERR_FILENO;
  /// Added to this process's environment as NAME=VALUE; each replaces a variable of the same name.
  std::vector<std::string> variables;
  /// In a process group of its own: Ctrl-C in the terminal does not reach it.
  bool own_group = false;
  /// Signals that do in it what they do by default, even if this process ignores them.
  std::vector<int> default_signals;
};

/// One child. It starts with no signal blocked. Thread: one.
class child_process {
 public:
  /// Starts the program at `path`; the first of `arguments` is its name. The fault is the system's reason alone. This
  /// process no longer ignores SIGCHLD, with which the system would forget how children end.
  static result<child_process> start(const std::string& path, std::vector<std::string> arguments,
                                     const child_options& options);

  child_process(child_process&& other) noexcept;
  child_process& operator=(child_process&&) = delete;
  /// Kills it, if it still runs.
  ~child_process();

  pid_t pid() const { return pid_; }

  /// Asks the system what has become of it; does not block.
  void poll();
  /// Waits for its end.
  void wait();
  /// Sends SIGKILL, which reaches a stopped process too, and waits for its end.
  void kill();

  /// Whether a signal has stopped it, as `poll` found.
  bool is_stopped() const { return stopped_; }
  bool has_ended() const { return status_.has_value(); }
  /// Its exit code; nothing if it runs or a signal ended it.
  std::optional<int> exit_code() const;
  /// The signal that ended it; nothing if it runs or has exited.
  std::optional<int> signal() const;
  /// What it used. Requires: it has ended.
  const rusage& used() const { return used_; }

 private:
  explicit child_process(pid_t pid) : pid_(pid) {}
  void ask(int flags);

  pid_t pid_ = -1;
  bool stopped_ = false;
  std::optional<int> status_;  ///< as wait(2) gives it
  rusage used_{};
};

}  // namespace troupe
