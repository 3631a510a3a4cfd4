#include "launch/signals.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <string>

#include "launch/attempt.hpp"

namespace troupe::launch {
namespace {

stop_request request;
std::atomic<int> signals_seen = 0;          ///< of anybody, but
std::atomic<int> signals_passed = 0;        ///< of the supervisor, which passes its own on
std::atomic<pid_t> supervisor_process = 0;  ///< 0: nobody supervises this process
std::atomic<bool> diagnosis_asked = false;
std::atomic<bool> on_terminal = false;
std::array<char, 256> heard = {};         ///< what the first signal writes to stderr
std::atomic<std::size_t> heard_size = 0;  ///< of it; 0: nothing
std::atomic<bool> heard_told = false;
constexpr std::size_t children_max = 4096;
std::array<std::atomic<pid_t>, children_max> child_pids = {};
static_assert(std::atomic<pid_t>::is_always_lock_free);
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::size_t>::is_always_lock_free &&
                  std::atomic<bool>::is_always_lock_free,
              "a signal handler may use lock-free atomics only");

/// Notes once that a stop was heard. It runs in signal handlers.
void tell_heard() {
  if (heard_size.load() == 0 || heard_told.exchange(true)) return;
  // What a terminal shows in this line, the progress or ^C, must not continue.
  if (on_terminal.load()) (void)!::write(STDERR_FILENO, "\n", 1);
  (void)!::write(STDERR_FILENO, heard.data(), heard_size.load());
}

/// Runs on any thread at any point: it uses only lock-free atomics, write, kill and _exit. A signal to the whole
/// process group comes twice under a supervisor: as it is, and passed on.
void on_signal(int, siginfo_t* info, void*) {
  const bool is_passed = info->si_code == SI_USER && info->si_pid == supervisor_process.load();
  const int before = errno;
  const int alike = (is_passed ? signals_passed : signals_seen).fetch_add(1) + 1;
  if (alike > 1) {
    // The shell's prompt must not continue the progress line.
    if (on_terminal.load()) (void)!::write(STDERR_FILENO, "\n", 1);
    for (const auto& child : child_pids)
      if (const pid_t pid = child.load()) ::kill(pid, SIGKILL);
    _exit(exit_interrupted);
  }
  request.request();
  tell_heard();
  errno = before;
}

void on_diagnosis_signal(int) { diagnosis_asked.store(true); }

}  // namespace

bool diagnosis_wanted() { return diagnosis_asked.exchange(false); }

const stop_request& stop_on_signals(const console& out) {
  if (!out.quiet() && heard_size.load() == 0) {
    const std::string line = fmt::format(
        "{}: stopping at the end of this step, or at once before the first; a second signal quits at once\n",
        out.name());
    const std::size_t size = std::min(line.size(), heard.size());
    std::copy_n(line.begin(), size, heard.begin());
    heard_size.store(size);
  }
  if (request.requested()) tell_heard();  // by the supervisor, before this process began
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
