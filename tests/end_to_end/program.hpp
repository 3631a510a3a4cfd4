// Runs the real program as a separate process, and reads what it writes.

#pragma once

#include <sys/types.h>

#include <boost/json.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/child_process.hpp"
#include "tests/expect_finds.hpp"

namespace troupe::end_to_end {

using args = std::vector<std::string>;

args with(args all, const args& more);
/// Splits a text at spaces.
args description_of(const std::string& text);

/// How to start the program.
struct launch {
  /// Standard error is a terminal with this many columns; 0: a pipe.
  unsigned short terminal_columns = 0;
  /// Standard output is this file instead of a pipe; empty: a pipe.
  std::string output_file;
  /// Variables set on top of the test's own environment.
  std::vector<std::pair<std::string, std::string>> environment;
  /// A program other than `troupe`; empty: `troupe`.
  std::string program;
};

/// The result of a program.
struct outcome {
  /// -1 if a signal ended it, or if it was killed for exceeding its time.
  int exit_code = -1;
  int signal = 0;
  bool in_time = true;
  std::string out;
  std::string err;
};

/// A running program. Its lifetime is limited: if it takes longer, it is killed and reported as not in time.
class program {
 public:
  explicit program(const args& arguments, const launch& how = {});
  ~program();
  program(const program&) = delete;
  program& operator=(const program&) = delete;

  /// Reads until standard output has `text`. Returns false if the program ends or its time is up before that.
  bool wait_for_output(std::string_view text) { return wait_for(out_, text); }
  /// The same for standard error, which may be a terminal; searches for `text` from byte `from` on.
  bool wait_for_error(std::string_view text, std::size_t from = 0) { return wait_for(err_, text, from); }

  /// What has been read so far.
  const std::string& output() const { return out_.text; }
  const std::string& error() const { return err_.text; }

  pid_t process() const { return process_->pid(); }
  void send(int signal) const;
  /// Sends all of `signals` before the program can react to the first.
  void send_together(const std::vector<int>& signals) const;
  /// Closes the reading end of standard output.
  void close_output();

  /// Reads to the end, which comes when all processes that write to the program's standard error have ended.
  outcome finish();

 private:
  struct stream {
    int descriptor = -1;
    std::string text;
  };

  bool wait_for(stream& from, std::string_view text, std::size_t searched = 0);
  /// Reads available data, or waits for some. Returns false when both streams have ended or time is up.
  bool read_more();
  void read_into(stream& to);

  std::optional<child_process> process_;
  stream out_;
  stream err_;
  bool in_time_ = true;
  std::chrono::steady_clock::time_point deadline_;
};

/// Starts the program and waits for its end.
outcome run(const args& arguments, const launch& how = {});

args lines_of(const std::string& text);

/// Parses each line as a JSON object. Lines that are not JSON fail the test and are omitted.
std::vector<boost::json::object> json_lines(const std::string& text);

/// The last JSON line; fails the test if it is not an event of this name.
boost::json::object last_event(const outcome& from, std::string_view name);

/// The digest of a run that has succeeded.
std::string digest_of(const outcome& from);
/// Runs the job with these arguments, and returns its digest.
std::string digest_of(const args& arguments);

/// The text of a field's number in a JSON line.
std::string number_text(const std::string& line, const std::string& field);

/// Expects an exit with `code`, a single error line, and nothing on standard output. Returns the line.
std::string expect_error(const outcome& from, int code);

/// Writes a file for this test and returns its path; replaces a file of the same name.
std::string write_file(const std::string& name, std::string_view content);

/// The path of a reference run in tests/reference_runs.
std::string reference_run(const std::string& name);

}  // namespace troupe::end_to_end
