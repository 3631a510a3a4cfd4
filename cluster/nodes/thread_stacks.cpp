#include "cluster/nodes/thread_stacks.hpp"

#include <cxxabi.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

namespace troupe::nodes {

namespace {

constexpr std::size_t depth_max = 64;
/// Timeouts for one thread, which answers as soon as it runs, and for all together, because some block all signals. The
/// master waits 10 s for a process's ring and stacks (see master_status.cpp).
constexpr std::chrono::milliseconds thread_timeout{500};
constexpr std::chrono::milliseconds all_timeouts{1500};

/// The asked thread fills it in its signal handler.
struct answer {
  std::array<void*, depth_max> frames{};
  int depth = 0;
  std::atomic<bool> ready = false;
};

/// Static: a late handler must not write to freed memory.
answer asked_for;
std::atomic<pid_t> asked_thread = 0;

void on_signal(int) {
  const int before = errno;
  if (asked_thread.load() == static_cast<pid_t>(::syscall(SYS_gettid))) {
    asked_for.depth = ::backtrace(asked_for.frames.data(), static_cast<int>(depth_max));
    asked_for.ready.store(true);
  }
  errno = before;
}

/// Demangles the name in `program(_ZN6troupe4worker+0x12) [0x55]`.
std::string readable(const std::string& frame) {
  const std::size_t begin = frame.find('(') + 1;
  const std::size_t end = frame.find('+', begin);
  if (begin == 0 || end == std::string::npos || end == begin) return frame;
  int failed = 0;
  char* name = abi::__cxa_demangle(frame.substr(begin, end - begin).c_str(), nullptr, nullptr, &failed);
  if (failed != 0 || name == nullptr) return frame;
  std::string text = frame.substr(0, begin) + name + frame.substr(end);
  std::free(name);
  return text;
}

std::string frames_text(void* const* frames, int depth) {
  std::string text;
  char** names = ::backtrace_symbols(frames, depth);
  for (int i = 0; names != nullptr && i < depth; ++i) text += "  " + readable(names[i]) + "\n";
  std::free(names);
  return text;
}

std::string name_of(pid_t thread) {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/self/task/{}/comm", thread)), name);
  return name;
}

std::string stack_of(pid_t thread, int signal_number, std::chrono::steady_clock::time_point give_up) {
  asked_for.ready.store(false);
  asked_thread.store(thread);
  if (::syscall(SYS_tgkill, ::getpid(), thread, signal_number) != 0) return "  it has just ended\n";
  // Waits at least once, even after the deadline.
  do std::this_thread::sleep_for(std::chrono::microseconds(200));
  while (!asked_for.ready.load() && std::chrono::steady_clock::now() < give_up);
  asked_thread.store(0);
  if (!asked_for.ready.load()) return "  it does not answer\n";
  return frames_text(asked_for.frames.data(), asked_for.depth);
}

}  // namespace

std::string stacks_of_all_threads() {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  std::array<void*, depth_max> mine{};
  const int depth = ::backtrace(mine.data(), static_cast<int>(depth_max));  // loads libraries, which handlers must not
  const int signal_number = SIGRTMIN + 3;
  struct sigaction action = {};
  action.sa_handler = &on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal_number, &action, nullptr);
  const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
  std::string text;
  const auto end = std::chrono::steady_clock::now() + all_timeouts;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", failed)) {
    const std::string number = entry.path().filename().string();
    pid_t thread = 0;
    std::from_chars(number.data(), number.data() + number.size(), thread);
    if (thread == self) continue;
    const auto give_up = std::min(end, std::chrono::steady_clock::now() + thread_timeout);
    text += fmt::format("thread {} ({})\n{}\n", thread, name_of(thread), stack_of(thread, signal_number, give_up));
  }
  return text +
         fmt::format("thread {} ({}), which wrote this\n{}", self, name_of(self), frames_text(mine.data(), depth));
}

}  // namespace troupe::nodes
