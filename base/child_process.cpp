#include "base/child_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/assert.hpp"
#include "base/descriptor.hpp"
#include "base/mapped.hpp"

extern char** environ;

namespace troupe {
namespace {

std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  const auto name_of = [](std::string_view entry) { return entry.substr(0, entry.find('=')); };
  std::vector<std::string> all = variables;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::ranges::find(variables, name_of(*entry), name_of) == variables.end()) all.emplace_back(*entry);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  auto all = mapped(texts, [](std::string& text) { return text.data(); });
  all.push_back(nullptr);
  return all;
}

constexpr const char* null_path = "/dev/null";

}  // namespace

result<child_process> child_process::start(const std::string& path, std::vector<std::string> arguments,
                                           const child_options& options) {
  // Opened here, as the system does not report which of the child's calls has failed.
  const auto null = descriptor::open(null_path, O_RDWR);
  if (!null) return run_fault("{}: {}", null_path, null.error().message);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  for (const auto& [to, from] : {std::pair(STDIN_FILENO, options.in), std::pair(STDOUT_FILENO, options.out),
                                 std::pair(STDERR_FILENO, options.err)})
    posix_spawn_file_actions_adddup2(&files, from == child_options::null_device ? null->number() : from, to);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : options.held_signals) sigaddset(&held, signal);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int signal : options.default_signals) sigaddset(&defaults, signal);
  posix_spawnattr_setsigmask(&attributes, &held);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  std::vector<std::string> environment = environment_with(options.variables);
  std::signal(SIGCHLD, SIG_DFL);
  pid_t pid = -1;
  const int problem = posix_spawn(&pid, path.c_str(), &files, &attributes, pointers_to(arguments).data(),
                                  pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (problem != 0) return run_fault("{}: {}", path, std::strerror(problem));
  return child_process(pid);
}

result<std::optional<child_process>> child_process::fork() {
  std::signal(SIGCHLD, SIG_DFL);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return run_fault(std::strerror(errno));
  if (pid > 0) return child_process(pid);
  end_with_parent(parent);
  return std::nullopt;
}

void end_with_parent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(EXIT_FAILURE);  // the parent ended before
}

void release_signals() {
  sigset_t none;
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

child_process::child_process(child_process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), stopped_(other.stopped_), status_(other.status_), used_(other.used_) {}

child_process::~child_process() {
  if (pid_ > 0) kill();
}

void child_process::ask(int flags) {
  if (status_) return;
  int status = 0;
  rusage used{};
  pid_t answered = -1;
  while ((answered = ::wait4(pid_, &status, flags, &used)) < 0 && errno == EINTR) continue;
  TROUPE_ASSERT(answered >= 0);  // only this class waits for the child
  if (answered == 0) return;
  stopped_ = WIFSTOPPED(status);
  if (stopped_ || WIFCONTINUED(status)) return;
  status_ = status;
  used_ = used;
}

void child_process::poll() { ask(WNOHANG | WUNTRACED | WCONTINUED); }

void child_process::wait() { ask(0); }

void child_process::kill() {
  if (!status_) ::kill(pid_, SIGKILL);
  wait();
}

std::optional<int> child_process::exit_code() const {
  return status_ && WIFEXITED(*status_) ? std::optional<int>(WEXITSTATUS(*status_)) : std::nullopt;
}

std::optional<int> child_process::signal() const {
  return status_ && WIFSIGNALED(*status_) ? std::optional<int>(WTERMSIG(*status_)) : std::nullopt;
}

}  // namespace troupe
