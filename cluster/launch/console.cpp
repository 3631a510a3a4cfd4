#include "cluster/launch/console.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"

namespace troupe::launch {
namespace {

/// Limit of how long lines are buffered while more arrive.
constexpr auto hold_time = std::chrono::milliseconds(50);
constexpr std::size_t hold_bytes_max = 64 * 1024;

/// Any library call may fail because the process has no descriptor left.
std::string with_advice(const std::string& message) {
  const bool lacks_descriptors =
      message.find(std::strerror(EMFILE)) != std::string::npos && message.find("ulimit -n") == std::string::npos;
  return message + (lacks_descriptors ? "; 'ulimit -n' allows this process more file descriptors" : "");
}

}  // namespace

bool console::to_terminal() { return isatty(STDOUT_FILENO) == 1; }

void console::result(std::string_view text) {
  flush();
  write(text);
}

void console::write(std::string_view text) {
  if (output_error_ == 0) output_error_ = writer_ ? writer_(text) : write_all(STDOUT_FILENO, text);
}

void console::event(std::string_view line) {
  held_ += line;
  if (held_.size() >= hold_bytes_max || std::chrono::steady_clock::now() - last_write_ >= hold_time) flush();
}

void console::flush() {
  if (held_.empty()) return;
  write(held_);
  held_.clear();
  last_write_ = std::chrono::steady_clock::now();
}

int console::error(const fault& what) {
  const bool input = what.kind == fault_kind::input;
  if (what.message.empty()) return input ? exit_wrong_input : exit_failed;
  const std::string message = with_advice(what.message);
  log(fmt::format("{}: error: {}\n", name_, one_line(message)));
  if (json_) {
    json_line line("error");
    line.add("code", input ? "input" : what.kind == fault_kind::device ? "device" : "run").add("message", message);
    result(line.take());
  }
  return input ? exit_wrong_input : exit_failed;
}

void console::note(const std::string& line) {
  if (!quiet_) report(line);
}

void console::report(const std::string& line) { log(fmt::format("{}: {}\n", name_, one_line(line))); }

void console::warning(const std::string& message) {
  flush();
  log(fmt::format("{}: warning: {}\n", name_, one_line(message)));
  if (json_) result(json_line("warning").add("message", message).take());
}

void console::log(std::string_view text) {
  // If stderr also fails, there is nowhere to report it.
  (void)write_all(STDERR_FILENO, text);
}

int console::finish(int code) {
  flush();
  if (output_error_ == 0) return code;
  // If the reader closed the pipe, the user wanted that: no message.
  if (output_error_ != EPIPE)
    log(fmt::format("{}: error: the results could not be written to stdout: {}\n", name_,
                    std::strerror(output_error_)));
  return code == exit_done ? exit_failed : code;
}

void prepare_streams() {
  // The failing calls report these as errors, which name the file.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    // open() returns the lowest free number. Read-only: writing to a closed stream must stay an error.
    if (fcntl(descriptor, F_GETFD) == -1 && errno == EBADF) (void)open("/dev/null", O_RDONLY);
  }
}

}  // namespace troupe::launch
