// The program's two streams: results on stdout, everything else on stderr.

#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.hpp"

namespace troupe::launch {

/// Exit codes of every subcommand.
enum exit_code : int { exit_done = 0, exit_failed = 1, exit_wrong_input = 2, exit_interrupted = 130 };

/// Writes results, errors and notes. Thread: one at a time.
///
/// Guarantees not to throw or end the program if a stream fails. If results were lost, for example to a closed pipe
/// (`| head`), `finish` reports it at the end.
class console {
 public:
  /// `json`: results are JSON lines. `quiet`: no progress and no notes. `program`: its name in lines on stderr.
  console(bool json, bool quiet, std::string program = "troupe")
      : program_(std::move(program)), name_(program_), json_(json), quiet_(quiet) {}
  ~console() { flush(); }
  console(const console&) = delete;
  console& operator=(const console&) = delete;

  /// Sets the name in lines on stderr, as in `troupe trainer 1: error: ...`.
  void set_name(const std::string& name) { name_ = program_ + " " + name; }
  /// Writes a line about joining and leaving processes; not with `quiet`.
  void note(const std::string& line);
  /// Writes a line that `quiet` does not suppress.
  void report(const std::string& line);

  /// Has `writer` write to stdout from now on: it returns 0, or the errno of the failure.
  void redirect(std::function<int(std::string_view)> writer) { writer_ = std::move(writer); }

  /// The name in lines on stderr.
  const std::string& name() const { return name_; }
  bool json() const { return json_; }
  bool quiet() const { return quiet_; }
  /// Returns whether stdout is a terminal.
  static bool to_terminal();

  /// Writes text to stdout at once.
  void result(std::string_view text);

  /// Writes a whole line to stdout, buffered if the last one was written a moment ago, which makes short epochs cheap.
  /// `flush` writes buffered lines.
  void event(std::string_view line);
  void flush();

  /// Writes the fault as a line to stderr, and as an error event to stdout if results are JSON; nothing if its text is
  /// empty, because another process reports it. Returns its exit code.
  int error(const fault& what);

  /// The same for a warning, which does not end the program.
  void warning(const std::string& message);

  /// Writes text to stderr unchanged, for `progress_display`.
  static void log(std::string_view text);

  /// Returns whether a write to stdout has failed.
  bool output_lost() const { return output_error_ != 0; }

  /// Returns `code`, or exit_failed with an error line if results were lost.
  int finish(int code);

 private:
  void write(std::string_view text);

  std::string program_;
  std::string name_;
  bool json_;
  bool quiet_;
  /// errno of the first failed write to stdout.
  int output_error_ = 0;
  std::string held_;
  std::function<int(std::string_view)> writer_;
  std::chrono::steady_clock::time_point last_write_{};
};

/// Opens descriptors 0 to 2 if they are closed, so that no file gets one of these numbers. Ignores SIGPIPE and SIGXFSZ,
/// so that writing to a closed pipe, or beyond the file size limit, is an error. Call it first in main.
void prepare_streams();

}  // namespace troupe::launch
