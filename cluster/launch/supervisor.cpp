#include "cluster/launch/supervisor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/json/value_from.hpp>
#include <boost/json/value_to.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <utility>
#include <vector>

#include "base/child_process.hpp"
#include "base/control_group.hpp"
#include "base/lossless_json.hpp"
#include "base/result.hpp"
#include "cluster/launch/attempt.hpp"
#include "cluster/launch/processes.hpp"
#include "cluster/launch/signals.hpp"
#include "cluster/launch/stop_deadline.hpp"
#include "cluster/links/credentials.hpp"

namespace troupe::launch {

namespace {

namespace json = boost::json;
using supervisor_clock = std::chrono::steady_clock;

constexpr std::array forwarded = {SIGINT, SIGTERM, SIGUSR1};
constexpr std::size_t sigterm_place = 1;
std::array<std::atomic<int>, forwarded.size()> signals_to_pass = {};
std::atomic<int> stops_asked = 0;

/// Counts signals. Those to the process group, as from a terminal, also reach the leading process directly; it
/// recognizes those that are passed on.
void on_supervisor_signal(int number) {
  if (number != SIGUSR1) stops_asked.fetch_add(1);
  for (std::size_t i = 0; i < forwarded.size(); ++i)
    if (forwarded[i] == number) signals_to_pass[i].fetch_add(1);
}

/// A signal that is ignored at the program's start stays ignored.
void handle_signals() {
  for (const int number : forwarded) {
    struct sigaction before = {};
    sigaction(number, nullptr, &before);
    if ((before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_handler = &on_supervisor_signal;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, nullptr);
  }
}

/// Returns how many processes the system has killed for want of memory, in this process's control group if that is
/// known; 0 if the system does not report it.
std::uint64_t killed_for_memory() {
  if (const auto of_group = killed_in(memory_groups())) return *of_group;
  std::ifstream counters("/proc/vmstat");
  std::string name;
  std::uint64_t value = 0;
  while (counters >> name >> value)
    if (name == "oom_kill") return value;
  return 0;
}

/// Counts this process's threads without the thread sanitizer's, which starts with the first other one and also exists
/// in copies of the process. Null if they cannot be counted.
std::optional<std::size_t> threads_of_this_process() {
  std::error_code unknown;
  const std::filesystem::directory_iterator tasks("/proc/self/task", unknown);
  if (unknown) return std::nullopt;
  auto count = static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
#ifdef __SANITIZE_THREAD__
  count = std::max<std::size_t>(count, 2) - 1;
#endif
  return count;
}

class supervisor {
 public:
  supervisor(std::uint64_t restarts, console& out) : out_(out) {
    history_.restarts = restarts;
    history_.token = links::random_token();
  }

  /// Returns in copies of this process only.
  result<void> run();

 private:
  void watch(child_process& leader, const message_socket& channel);
  void handle(message_socket::message&& got, const message_socket& channel);
  void print(const std::string& message);
  void pass_signals(child_process& leader);
  void look_after_stopped(child_process& leader);
  void look_after_roles(const message_socket& channel);
  void note_loss();
  void finish_if_over(const child_process& leader);
  void prepare_next(const child_process& leader);
  [[noreturn]] void end(int code);

  console& out_;
  attempt_history history_;
  std::map<std::string, descriptor> kept_;
  role_processes roles_;

  // These belong to the attempt under way.
  bool begun_ = false;
  std::string failed_;
  bool failed_by_device_ = false;
  std::uint32_t changed_to_ = 0;  ///< number of trainers of the next attempt; 0: it follows a loss
  std::vector<std::string> ended_roles_;
  bool loss_is_counted_ = false;  ///< whether this attempt's loss is counted, though it has not ended yet
  std::optional<supervisor_clock::time_point> lost_at_;
  supervisor_clock::time_point last_look_;
  std::optional<supervisor_clock::time_point> stopped_since_;
  std::optional<supervisor_clock::time_point> quit_at_;
  std::uint64_t killed_for_memory_ = 0;
};

result<void> supervisor::run() {
  std::fflush(nullptr);  // else both processes would write the buffered text
  std::cout.flush();
  handle_signals();
  for (;;) {
    auto ends = message_socket::make_pair();
    if (!ends) return run_fault("--restarts: a socket for the process that leads the run: {}", ends.error().message);
    killed_for_memory_ = killed_for_memory();
    auto leader = child_process::fork();
    if (!leader) return run_fault("--restarts: the process that leads the run: {}", leader.error().message);
    if (!*leader) {
      attempt::begin(std::move(history_), std::move(ends->second));
      stop_on_signals(out_);  // in place of the supervisor's handlers: no signal is lost in between
      static const stop_deadline overdue(out_, stopping_part::leader);  // lives as long as this copy
      if (stops_asked.load() > 0) stop_now();  // the previous attempt ended before it received the stop
      return {};
    }
    { const message_socket closed = std::move(ends->second); }
    watch(**leader, ends->first);
    finish_if_over(**leader);
    prepare_next(**leader);
  }
}

/// Returns when the leading process has ended.
void supervisor::watch(child_process& leader, const message_socket& channel) {
  constexpr std::chrono::milliseconds interval{20};
  while (!leader.has_ended()) {
    if (auto got = channel.receive(interval)) handle(std::move(*got), channel);
    pass_signals(leader);
    look_after_roles(channel);
    leader.poll();
    look_after_stopped(leader);
  }
  while (auto got = channel.receive(std::chrono::milliseconds(0))) handle(std::move(*got), channel);
  const auto lost = roles_.take_lost();
  ended_roles_.insert(ended_roles_.end(), lost.begin(), lost.end());
  note_loss();
}

void supervisor::handle(message_socket::message&& got, const message_socket& channel) {
  if (got.text.front() == attempt::print_mark) return print(got.text);
  const json::object what = read_note(got.text);
  const json::string& name = what.at("what").as_string();
  const auto number = [&] { return what.at("number").to_number<std::uint64_t>(); };
  const auto text = [&] { return json::value_to<std::string>(what.at("text")); };
  if (name == "reached") {
    history_.reached = std::max(history_.reached, number());
  } else if (name == "saved") {
    if (number() > history_.saved) history_.losses = 0;
    history_.saved = std::max(history_.saved, number());
  } else if (name == "begun") {
    begun_ = true;
    loss_is_counted_ = false;
    history_.redone += history_.reached - std::min(history_.reached, number());
    history_.reached = number();
  } else if (name == "failed" || name == "device failed") {
    failed_ = text();
    failed_by_device_ = name == "device failed";
    note_loss();
  } else if (name == "remember") {
    history_.remembered[json::value_to<std::string>(what.at("name"))] = text();
  } else if (name == "trainers") {
    changed_to_ = static_cast<std::uint32_t>(number());
    if (history_.roles) history_.roles->trainers = changed_to_;
    note_loss();
  } else if (name == "dead after") {
    history_.dead_after = std::chrono::milliseconds(number());
  } else if (name == "resume") {
    history_.resume = text();
  } else if (name == "keep" && got.attached) {
    history_.kept[text()] = got.attached->number();
    kept_.insert_or_assign(text(), std::move(*got.attached));
  } else if (name == "start") {
    history_.roles = {json::value_to<std::vector<std::string>>(what.at("command")),
                      json::value_to<std::vector<std::string>>(what.at("variables")),
                      what.at("servers").to_number<std::uint32_t>(), what.at("trainers").to_number<std::uint32_t>()};
    roles_.start(*history_.roles);
  } else if (name == "over") {
    const auto lines = roles_.finish(number() != 0 ? exit_timeout : kill_timeout);
    // A later run of the program may want the port, or the folder. If the leading process is still lost, the next
    // attempt has another port, and starts its processes with that.
    history_.kept.clear();
    history_.roles.reset();
    kept_.clear();
    history_.remembered.clear();
    channel.send(
        lossless_json(json::object{{"peak_rss_mib", roles_.peak_rss_mib()}, {"lines", json::value_from(lines)}}));
  }
}

/// Writes the leading process's text to stdout at once. If stdout is closed, it asks the run to stop.
void supervisor::print(const std::string& message) {
  const std::size_t end = message.find('\n');
  const bool was_lost = out_.output_lost();
  out_.result(std::string_view(message).substr(end + 1));
  history_.reported = std::max<std::uint64_t>(history_.reported, std::stoull(message.substr(1, end - 1)));
  if (out_.output_lost() && !was_lost) signals_to_pass[sigterm_place].fetch_add(1);
}

/// The leading process handles the first stop. After another one it has one second to end.
void supervisor::pass_signals(child_process& leader) {
  for (std::size_t i = 0; i < forwarded.size(); ++i)
    for (int count = signals_to_pass[i].exchange(0); count > 0; --count) ::kill(leader.pid(), forwarded[i]);
  if (stops_asked.load() < 2) return;
  const auto now = supervisor_clock::now();
  if (!quit_at_) quit_at_ = now + std::chrono::seconds(1);
  if (now < *quit_at_) return;
  leader.kill();
  end(exit_interrupted);
}

/// Kills a leading process that has been stopped for long: its members take it for dead. Time in which this process
/// itself was stopped does not count: a terminal stops both (Ctrl-Z).
void supervisor::look_after_stopped(child_process& leader) {
  const auto now = supervisor_clock::now();
  const auto look = std::exchange(last_look_, now);
  if (!leader.is_stopped() || now - look > history_.dead_after / 5) stopped_since_.reset();
  if (!leader.is_stopped() || leader.has_ended()) return;
  if (!stopped_since_) stopped_since_ = now;
  if (now - *stopped_since_ < history_.dead_after) return;
  failed_ = fmt::format("the process that leads the run (pid {}) was stopped for {} s (--dead-after)", leader.pid(),
                        static_cast<double>(history_.dead_after.count()) / 1000);
  leader.kill();
}

/// Restarts processes that were lost before the attempt has begun. Later losses end the attempt. If the leading process
/// was lost during the end of the run, some processes know the end and have ended with success: the attempt also lacks
/// these.
void supervisor::look_after_roles(const message_socket& channel) {
  const auto lost = roles_.take_lost();
  const bool is_next = history_.number > 1 && history_.roles && !begun_;
  if (lost.empty() && is_next && roles_.some_ended()) return roles_.start_missing(*history_.roles);
  if (lost.empty()) return;
  ended_roles_.insert(ended_roles_.end(), lost.begin(), lost.end());
  note_loss();
  if (begun_ || stops_asked.load() > 0 || history_.losses > history_.restarts) return;
  loss_is_counted_ = true;
  if (++history_.losses > history_.restarts)
    channel.send(lossless_json(json::object{{"hopeless", lost.front()}}));
  else
    roles_.start_missing(*history_.roles);
}

void supervisor::note_loss() {
  if (!lost_at_) lost_at_ = supervisor_clock::now();
}

/// Ends this process unless the environment has ended the attempt.
void supervisor::finish_if_over(const child_process& leader) {
  constexpr int by_signal = 128;  // as in shells
  if (const auto code = leader.exit_code(); code && *code != exit_again) end(*code);
  const auto signal = leader.signal();
  if (signal == SIGINT || signal == SIGTERM) end(by_signal + *signal);  // before it handled them
}

void supervisor::prepare_next(const child_process& leader) {
  std::string why = failed_;
  if (why.empty() && leader.signal())
    why = fmt::format("the process that led the run (pid {}) was ended by signal {}", leader.pid(), *leader.signal());
  for (const std::string& line : ended_roles_)  // a role that cannot be started is tried again
    if (why.find(line) == why.npos) why += (why.empty() ? "" : "; ") + line;
  if (killed_for_memory() > killed_for_memory_) why += "; the system has killed processes for want of memory";
  if (changed_to_ == 0 && !loss_is_counted_) ++history_.losses;
  if (changed_to_ > 0) {
    why = fmt::format("{} trainer{} from here on", changed_to_, changed_to_ == 1 ? "" : "s");
  } else if (history_.losses > history_.restarts) {
    const std::uint64_t failed = history_.losses;
    const std::string budget =
        fmt::format("{} attempt{} failed without a new checkpoint, --restarts {} allows no other", failed,
                    failed == 1 ? "" : "s", history_.restarts);
    end(out_.error({failed_by_device_ ? fault_kind::device : fault_kind::run,
                    fmt::format("{}; {}{}{}", why, budget, history_.resume.empty() ? "" : "; ", history_.resume)}));
  }
  ++history_.number;
  history_.lost = std::move(why);
  history_.lost_at = *lost_at_;
  history_.leader_was_lost = leader.signal().has_value();
  if (history_.roles) roles_.start_missing(*history_.roles);
  begun_ = false;
  failed_.clear();
  failed_by_device_ = false;
  changed_to_ = 0;
  loss_is_counted_ = false;
  ended_roles_.clear();
  lost_at_.reset();
  stopped_since_.reset();
}

void supervisor::end(int code) {
  roles_.finish(kill_timeout);
  std::_Exit(out_.finish(code));
}

/// Also exists in copies, whose end must not end the processes of the original. `used` keeps the compiler from removing
/// it, after which leak checkers would report a leak.
[[gnu::used]] supervisor* the_supervisor = nullptr;

}  // namespace

result<void> supervise(std::uint64_t restarts, console& out) {
  if (const auto threads = threads_of_this_process(); threads && *threads != 1)
    return bad_input(
        "--restarts {}: the process has {} threads already, and only one with a single thread can be begun again; make "
        "the cluster before threads, or use --restarts 0",
        restarts, *threads);
  the_supervisor = new supervisor(restarts, out);
  return the_supervisor->run();
}

}  // namespace troupe::launch
