#include "tests/end_to_end/program.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "tests/end_to_end/recorded.hpp"

namespace troupe::end_to_end {
namespace {

/// Sanitizers and busy machines turn a run of seconds into one of a minute.
constexpr auto life_max = std::chrono::seconds(240);

int check(int value, const char* what) {
  if (value < 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  return value;
}

struct two_ends {
  int ours;
  int theirs;
};

two_ends make_pipe() {
  std::array<int, 2> ends;
  check(pipe2(ends.data(), O_CLOEXEC), "pipe2");
  return {ends[0], ends[1]};
}

two_ends make_terminal(unsigned short columns) {
  const int ours = check(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), "posix_openpt");
  check(grantpt(ours), "grantpt");
  check(unlockpt(ours), "unlockpt");
  const int theirs = check(open(ptsname(ours), O_RDWR | O_NOCTTY | O_CLOEXEC), "opening the terminal");
  winsize size = {};
  size.ws_row = 24;
  size.ws_col = columns;
  check(ioctl(theirs, TIOCSWINSZ, &size), "TIOCSWINSZ");
  return {ours, theirs};
}

/// One line per thread of a process: its name, its state, and what it waits for in the kernel.
std::string threads_of(pid_t process) {
  std::string lines = "its threads when its time was up:\n";
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task", gone)) {
    for (const char* what : {"stat", "wchan", "syscall"}) {
      std::string text;
      std::ifstream from(thread.path() / what);
      std::getline(from, text);
      lines += text.substr(0, 60) + "  ";
    }
    lines += "\n";
  }
  return lines;
}

/// A folder of this test program, removed at its end: several programs may run at a time.
class scratch_folder {
 public:
  scratch_folder() : path_(testing::TempDir() + "troupe-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error(path_ + ": " + std::strerror(errno));
  }
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

program::program(const args& arguments, const launch& how) : deadline_(std::chrono::steady_clock::now() + life_max) {
  const two_ends out = how.output_file.empty()
                           ? make_pipe()
                           : two_ends{-1, check(open(how.output_file.c_str(), O_WRONLY | O_CLOEXEC), "output file")};
  const two_ends err = how.terminal_columns > 0 ? make_terminal(how.terminal_columns) : make_pipe();
  out_.descriptor = out.ours;
  err_.descriptor = err.ours;

  child_options with;
  with.out = out.theirs;
  with.err = err.theirs;
  with.default_signals = {SIGINT, SIGTERM, SIGPIPE};  // as a shell sets them, whatever the test runner ignores
  const auto add = [&](const std::string& name, const std::string& value) {
    with.variables.push_back(name + "=" + value);
  };
  for (const auto& [name, value] : recording_variables())
    if (std::ranges::find(how.environment, name, &std::pair<std::string, std::string>::first) == how.environment.end())
      add(name, value);
  for (const auto& [name, value] : how.environment) add(name, value);
  const std::string path = how.program.empty() ? TROUPE_PROGRAM : how.program;
  std::vector<std::string> command = {path};
  command.insert(command.end(), arguments.begin(), arguments.end());
  auto started = child_process::start(path, command, with);
  close(out.theirs);
  close(err.theirs);
  if (!started) throw std::runtime_error(started.error().message);
  process_.emplace(std::move(*started));
}

program::~program() {
  if (out_.descriptor >= 0) close(out_.descriptor);
  if (err_.descriptor >= 0) close(err_.descriptor);
}

void program::send(int signal) const { check(kill(process(), signal), "kill"); }

void program::send_together(const std::vector<int>& signals) const {
  send(SIGSTOP);
  check(waitpid(process(), nullptr, WUNTRACED), "waiting for the stop");
  for (const int signal : signals) send(signal);
  send(SIGCONT);
}

void program::close_output() {
  close(out_.descriptor);
  out_.descriptor = -1;
}

bool program::wait_for(stream& from, std::string_view text, std::size_t searched) {
  while (from.text.find(text, searched) == std::string::npos) {
    searched = std::max(searched, from.text.size() - std::min(from.text.size(), text.size()));
    if (!read_more()) return from.text.find(text, searched) != std::string::npos;
  }
  return true;
}

bool program::read_more() {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
  std::array<pollfd, 2> waiting = {{{out_.descriptor, POLLIN, 0}, {err_.descriptor, POLLIN, 0}}};
  if (out_.descriptor < 0 && err_.descriptor < 0) return false;
  const int ready = left.count() > 0 ? poll(waiting.data(), waiting.size(), static_cast<int>(left.count())) : 0;
  if (ready < 0 && errno == EINTR) return true;
  if (ready <= 0) {
    in_time_ = false;
    return false;
  }
  if (waiting[0].revents != 0) read_into(out_);
  if (waiting[1].revents != 0) read_into(err_);
  return true;
}

void program::read_into(stream& to) {
  std::array<char, 65536> buffer;
  const ssize_t count = read(to.descriptor, buffer.data(), buffer.size());
  if (count < 0 && errno == EINTR) return;
  if (count > 0) {
    to.text.append(buffer.data(), static_cast<std::size_t>(count));
    return;
  }
  // A terminal whose other side has closed returns an error instead of an end.
  close(to.descriptor);
  to.descriptor = -1;
}

outcome program::finish() {
  while (read_more()) continue;
  if (!in_time_) {
    err_.text += threads_of(process());
    process_->kill();
  }
  process_->wait();
  outcome result;
  if (in_time_) result.exit_code = process_->exit_code().value_or(-1);
  result.signal = process_->signal().value_or(0);
  result.in_time = in_time_;
  result.out = std::move(out_.text);
  result.err = std::move(err_.text);
  return result;
}

args with(args all, const args& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

args description_of(const std::string& text) {
  std::istringstream parts(text);
  return {std::istream_iterator<std::string>(parts), {}};
}

outcome run(const args& arguments, const launch& how) { return program(arguments, how).finish(); }

args lines_of(const std::string& text) {
  args lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<boost::json::object> json_lines(const std::string& text) {
  std::vector<boost::json::object> objects;
  for (const std::string& line : lines_of(text)) {
    boost::system::error_code error;
    const boost::json::value value = boost::json::parse(line, error);
    if (error || !value.is_object()) {
      ADD_FAILURE() << "not a JSON object: " << line;
      continue;
    }
    objects.push_back(value.as_object());
  }
  return objects;
}

boost::json::object last_event(const outcome& from, std::string_view name) {
  const auto lines = lines_of(from.out);
  const auto objects = json_lines(lines.empty() ? std::string() : lines.back());
  if (objects.empty() || objects.back().at("event").as_string() != name) {
    ADD_FAILURE() << "the last line is no " << name << " event; exit code " << from.exit_code << ", standard error:\n"
                  << from.err;
    return {};
  }
  return objects.back();
}

std::string digest_of(const outcome& from) {
  EXPECT_TRUE(from.in_time);
  EXPECT_EQ(from.exit_code, 0) << from.err;
  const auto done = last_event(from, "done");
  return done.contains("weights_digest") ? std::string(done.at("weights_digest").as_string()) : "";
}

std::string digest_of(const args& arguments) { return digest_of(run(with(arguments, {"--json"}))); }

std::string number_text(const std::string& line, const std::string& field) {
  const std::string name = "\"" + field + "\":";
  const std::size_t begin = line.find(name);
  if (begin == std::string::npos) return std::string();
  const std::size_t end = line.find_first_of(",}", begin);
  return line.substr(begin + name.size(), end - begin - name.size());
}

std::string expect_error(const outcome& from, int code) {
  EXPECT_EQ(from.exit_code, code) << from.err;
  EXPECT_EQ(from.out, "");
  const auto lines = lines_of(from.err);
  EXPECT_EQ(lines.size(), 1u) << from.err;
  if (lines.empty()) return std::string();
  EXPECT_EQ(lines.back().rfind("troupe: error: ", 0), 0u) << lines.back();
  return lines.back();
}

std::string write_file(const std::string& name, std::string_view content) {
  static const scratch_folder folder;
  const std::string path = folder.path() + "/" + name;
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
  return path;
}

std::string reference_run(const std::string& name) { return std::string(TROUPE_REFERENCE_RUNS) + "/" + name; }

}  // namespace troupe::end_to_end
