#include "cluster/launch/signals.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <string>

#include "cluster/launch/attempt.hpp"

namespace troupe::launch {
namespace {

stop_request request;
std::atomic<int> signals_seen = 0;          ///< from anyone but the supervisor
std::atomic<int> signals_passed = 0;        ///< from the supervisor, which passes on its own
std::atomic<pid_t> supervisor_process = 0;  ///< 0: this process is not supervised
std::atomic<bool> diagnosis_asked = false;
std::atomic<bool> on_terminal = false;

/// A line that a signal handler may write. Set by one thread at a time.
class prepared_line {
 public:
  void set(const std::string& line) {
    size_.store(0);
    const std::size_t size = std::min(line.size(), text_.size());
    std::copy_n(line.begin(), size, text_.begin());
    size_.store(size);
  }
  bool is_set() const { return size_.load() > 0; }
  void write() const {
    // Ends the line that a terminal shows, such as the progress or ^C.
    if (on_terminal.load()) (void)!::write(STDERR_FILENO, "\n", 1);
    (void)!::write(STDERR_FILENO, text_.data(), size_.load());
  }

 private:
  std::array<char, 256> text_ = {};
  std::atomic<std::size_t> size_ = 0;
};

prepared_line heard_line;  ///< what the first signal writes to stderr
std::atomic<bool> is_reported = false;
prepared_line late_line;  ///< written when the program ends some time later
std::atomic<unsigned> seconds_to_end = 0;
constexpr std::size_t children_max = 4096;
std::array<std::atomic<pid_t>, children_max> child_pids = {};
static_assert(std::atomic<pid_t>::is_always_lock_free);
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::size_t>::is_always_lock_free &&
                  std::atomic<bool>::is_always_lock_free,
              "a signal handler may use lock-free atomics only");

/// Reports once that the stop request was received. Runs in signal handlers.
void report_heard() {
  if (heard_line.is_set() && !is_reported.exchange(true)) heard_line.write();
}

/// Runs on any thread at any point: it uses only lock-free atomics, write, alarm, kill and _exit. Under a supervisor, a
/// signal to the whole process group arrives twice: directly, and passed on.
void on_signal(int, siginfo_t* info, void*) {
  const bool is_passed = info->si_code == SI_USER && info->si_pid == supervisor_process.load();
  const int before = errno;
  const int alike = (is_passed ? signals_passed : signals_seen).fetch_add(1) + 1;
  if (alike > 1) {
    // The shell's prompt must not continue the progress line.
    if (on_terminal.load()) (void)!::write(STDERR_FILENO, "\n", 1);
    quit_now(exit_interrupted);
  }
  request.request();
  report_heard();
  if (late_line.is_set()) ::alarm(seconds_to_end.load());
  errno = before;
}

void on_alarm(int) {
  if (late_line.is_set()) late_line.write();
  quit_now(exit_failed);
}

void on_diagnosis_signal(int) { diagnosis_asked.store(true); }

}  // namespace

bool diagnosis_wanted() { return diagnosis_asked.exchange(false); }

const stop_request& stop_on_signals(const console& out) {
  if (!out.quiet() && !heard_line.is_set())
    heard_line.set(fmt::format(
        "{}: stopping at the end of this step, or at once before the first; a second signal quits at once\n",
        out.name()));
  if (request.requested()) report_heard();  // by the supervisor, before this process began
  return stop_on_signals();
}

const stop_request& stop_on_signals() {
  on_terminal.store(isatty(STDERR_FILENO) == 1);
  struct sigaction action = {};
  if (attempt::mine() != nullptr) supervisor_process.store(getppid());
  action.sa_sigaction = &on_signal;
  // System calls restart after the handler.
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  // A signal that is ignored at the program's start stays ignored.
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction before = {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
  struct sigaction before = {};
  sigaction(SIGUSR1, nullptr, &before);
  action.sa_flags = SA_RESTART;
  action.sa_handler = &on_diagnosis_signal;
  if (before.sa_handler != SIG_IGN) sigaction(SIGUSR1, &action, nullptr);
  return request;
}

void stop_now() { request.request(); }

void end_by_next_signal(std::chrono::seconds time, const std::string& line) {
  struct sigaction before = {};
  sigaction(SIGALRM, nullptr, &before);
  if ((before.sa_flags & SA_SIGINFO) != 0 || (before.sa_handler != SIG_DFL && before.sa_handler != &on_alarm)) return;
  struct sigaction action = {};
  if (before.sa_handler == &on_alarm && line.empty()) ::alarm(0);
  action.sa_handler = line.empty() ? SIG_DFL : &on_alarm;
  sigemptyset(&action.sa_mask);
  sigaction(SIGALRM, &action, nullptr);
  seconds_to_end.store(static_cast<unsigned>(time.count()));
  late_line.set(line);
}

void quit_now(int code) {
  for (const auto& child : child_pids)
    if (const pid_t pid = child.load()) ::kill(pid, SIGKILL);
  _exit(code);
}

void kill_when_interrupted(pid_t child) {
  for (auto& place : child_pids) {
    pid_t free = 0;
    if (place.compare_exchange_strong(free, child)) return;
  }
}

void forget_child(pid_t child) {
  for (auto& place : child_pids) {
    pid_t found = child;
    if (place.compare_exchange_strong(found, 0)) return;
  }
}

}  // namespace troupe::launch
