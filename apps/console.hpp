// The program's two streams: results on stdout, everything else on stderr.

#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace troupe::apps {

/// Exit codes of every subcommand.
enum exit_code : int { exit_done = 0, exit_failed = 1, exit_wrong_input = 2, exit_interrupted = 130 };

/// Writes results, errors and notes. Not for two threads at a time.
///
/// Nothing here throws or ends the program when a stream is gone: a reader that closed the pipe (`| head`) is noted,
/// and the exit code says in the end that the results did not arrive.
class console {
 public:
  /// `json`: results are JSON lines. `quiet`: no progress and no notes.
  console(bool json, bool quiet) : json_(json), quiet_(quiet) {}
  ~console() { flush(); }
  console(const console&) = delete;
  console& operator=(const console&) = delete;

  /// Lines on stderr begin with `troupe` and this, as in `troupe trainer 1: error: ...`.
  void set_name(const std::string& name) { name_ = "troupe " + name; }
  /// A line about who has come and gone, where progress is shown.
  void note(const std::string& line);
  /// A line that the user has to see, whether progress is shown or not.
  void tell(const std::string& line);

  bool json() const { return json_; }
  bool quiet() const { return quiet_; }
  /// True if somebody watches stdout on a terminal.
  static bool to_terminal();

  /// Text on stdout, now.
  void result(std::string_view text);

  /// A whole line on stdout: now if the last one was written a while ago, else with one of the next. Keeps the cost of
  /// short epochs down; `flush` writes what is held back.
  void event(std::string_view line);
  void flush();

  /// The one line about what went wrong on stderr, and an error event on stdout if results are JSON. Returns the exit
  /// code that belongs to the fault.
  int error(const fault& what);

  /// The same for what does not end the program: a line on stderr, and an event of that name.
  void warning(const std::string& message);

  /// Text on stderr as it is; see `progress_display` for what goes there.
  static void log(std::string_view text);

  /// True once stdout has refused what was written to it.
  bool output_lost() const { return output_error_ != 0; }

  /// `code`, or exit_failed with an error line if results were lost on the way.
  int finish(int code);

 private:
  std::string name_ = "troupe";
  bool json_;
  bool quiet_;
  /// errno of the first failed write to stdout.
  int output_error_ = 0;
  std::string held_;
  std::chrono::steady_clock::time_point last_write_{};
};

/// Makes descriptors 0 to 2 exist, so that no file the program opens is mistaken for a closed stream, and makes writing
/// to a closed pipe, or beyond the limit of a file's size, an error instead of the program's end. To be called first in
/// main.
void prepare_streams();

}  // namespace troupe::apps
