#include "cluster/launch/stop_deadline.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/stop_grace.hpp"
#include "cluster/launch/signals.hpp"
#include "cluster/nodes/unreturned.hpp"

namespace troupe::launch {

namespace {

using deadline_clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds look_interval{50};
/// Timeout for the master's report on its members, which is part of the grace: it gives each of them 1 s.
constexpr std::chrono::milliseconds answer_timeout{2500};
constexpr std::chrono::milliseconds naming_time{2700};

struct overdue_line {
  std::mutex mutex;
  std::string text;
};

/// It is never destroyed: the thread may need it while the process exits.
overdue_line& added_line() {
  static auto* const line = new overdue_line;
  return *line;
}

/// Flushes what the program has printed, if that does not block.
void flush_output() {
  pollfd out{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  if (::poll(&out, 1, 0) != 1 || ::ftrylockfile(stdout) != 0) return;
  std::fflush(stdout);
  ::funlockfile(stdout);
}

std::atomic<bool> is_watched = false;

std::string overdue_text(const std::string& who) {
  return fmt::format("not ended within {} s after the stop request: {}", stop_grace.count(), who);
}

constexpr const char* main_text = "the program's main has not returned";

std::vector<open_code> running() {
  auto all = code_under_way::all();
  std::erase_if(all, [](const open_code& one) { return !one.runs; });
  return all;
}

bool is_stuck(const std::vector<open_code>& before, const std::vector<open_code>& now) {
  return std::ranges::any_of(now, [&](const open_code& one) {
    return std::ranges::any_of(before,
                               [&](const open_code& other) { return other.id == one.id && other.turn == one.turn; });
  });
}

/// Returns the time since `last` that counts, and sets `last` to now. A stop of the process, as by a terminal (Ctrl-Z),
/// counts 2 s at most.
std::chrono::milliseconds counted_since(deadline_clock::time_point& last) {
  constexpr std::chrono::milliseconds most{2000};
  const auto now = deadline_clock::now();
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now - std::exchange(last, now));
  return time_counts() ? std::min(passed, most) : std::chrono::milliseconds(0);
}

}  // namespace

/// The work of the thread.
class stop_deadline::watch {
 public:
  watch(const console& out, const stop_request& request)
      : request_(request), name_(out.name()), json_(out.json()), quiet_(out.quiet()) {}

  bool is_requested() const { return request_.requested(); }
  const std::string& name() const { return name_; }

  /// Ends the thread if it waits for a stop request.
  void end_waiting() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
  }

  void run(stopping_part part) {
    {
      std::unique_lock lock(mutex_);
      while (!request_.requested())
        if (changed_.wait_for(lock, look_interval, [this] { return is_over_; })) return;
    }
    part == stopping_part::leader ? of_leader() : of_member();
  }

 private:
  [[noreturn]] void of_leader() const {
    std::chrono::milliseconds counted{0};
    std::optional<std::vector<open_code>> before;
    std::optional<nodes::reported_run> reported;
    for (auto last = deadline_clock::now(); counted < stop_grace || !time_counts();) {
      if (!time_counts()) {
        before.reset();
        counted = std::min<std::chrono::milliseconds>(counted, stop_grace - naming_time);
      } else if (!before && counted >= stop_grace - naming_time) {
        before = code_under_way::all();
        reported = nodes::ask_leading_master(answer_timeout);
      }
      std::this_thread::sleep_for(look_interval);
      counted += counted_since(last);
    }
    const auto now = code_under_way::all();
    const std::string who = nodes::unreturned_functions_text(before.value_or(now), now, reported);
    if (!who.empty()) end(who);
    end(nodes::leads_run() ? "no actor of the run answers: all threads of this process are at work" : main_text);
  }

  /// A leader ends the run earlier: this is for a member that has lost it.
  [[noreturn]] void of_member() const {
    std::chrono::milliseconds counted{0};
    std::chrono::milliseconds stuck{0};
    auto last = deadline_clock::now();
    for (auto before = running();;) {
      std::this_thread::sleep_for(look_interval);
      const auto passed = counted_since(last);
      counted += passed;
      auto now = running();
      stuck = time_counts() && is_stuck(before, now) ? stuck + passed : std::chrono::milliseconds(0);
      if (counted >= 3 * stop_grace && stuck >= naming_time)
        end(nodes::unreturned_functions_text(before, now, std::nullopt));
      before = std::move(now);
    }
  }

  [[noreturn]] void end(const std::string& who) const {
    flush_output();
    console out(json_, quiet_, name_);
    out.error({fault_kind::run, overdue_text(who)});
    std::string line;
    {
      const std::lock_guard lock(added_line().mutex);
      line = added_line().text;
    }
    if (!line.empty()) out.note(line);
    quit_now(exit_failed);
  }

  const stop_request& request_;
  const std::string name_;
  const bool json_;
  const bool quiet_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
};

stop_deadline::stop_deadline(const console& out, stopping_part part) {
  if (is_watched.exchange(true)) return;
  watch_ = std::make_shared<watch>(out, stop_on_signals());
  end_by_next_signal({}, {});
  try {
    thread_ = std::thread([mine = watch_, part] { mine->run(part); });
  } catch (const std::system_error&) {
    // The system allows no thread: the run reports that when it needs its own.
  }
}

stop_deadline::~stop_deadline() {
  if (!watch_) return;
  const std::string line = fmt::format("{}: error: {}\n", watch_->name(), overdue_text(main_text));
  end_by_next_signal(stop_grace, line);
  if (thread_.joinable() && watch_->is_requested()) {
    thread_.detach();
    return;
  }
  watch_->end_waiting();
  if (thread_.joinable()) thread_.join();
  is_watched.store(false);
}

void say_if_overdue(const std::string& line) {
  const std::lock_guard lock(added_line().mutex);
  added_line().text = line;
}

}  // namespace troupe::launch
