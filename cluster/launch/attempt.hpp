// A supervised run is a sequence of attempts, each led by a process of its own: when the environment has ended one, the
// next continues from the newest checkpoint. This file is the leading process's side; cluster/launch/supervisor.hpp is
// the other.

#pragma once

#include <algorithm>
#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/message_socket.hpp"

namespace troupe::launch {

/// The processes for servers and trainers, which the supervisor starts, and restarts when they are lost.
struct role_orders {
  /// The command that each process begins with: the program's name, and its arguments before the role's.
  std::vector<std::string> command;
  /// Added to their environment.
  std::vector<std::string> variables;
  std::uint32_t servers = 0;
  std::uint32_t trainers = 0;
};

/// Figures of these processes, at their end.
struct roles_end {
  double peak_rss_mib = 0;
  std::vector<std::string> lines;  ///< one per process that a signal had ended
};

/// State that outlives an attempt. The supervisor owns it; each attempt has a copy.
struct attempt_history {
  std::uint64_t number = 1;      ///< this attempt's number, from 1
  std::uint64_t restarts = 0;    ///< attempts that may fail without a new checkpoint
  std::uint64_t losses = 0;      ///< attempts that have failed since the last new checkpoint
  std::uint64_t reached = 0;     ///< newest step of the previous attempt
  bool leader_was_lost = false;  ///< of the previous attempt: `reached` is its last report, and may be too small
  std::uint64_t redone = 0;      ///< steps that previous attempts had to repeat
  std::uint64_t saved = 0;       ///< the newest checkpoint's step
  std::uint64_t reported = 0;    ///< last epoch written to stdout
  std::string lost;              ///< why the previous attempt failed
  std::chrono::steady_clock::time_point lost_at{};
  std::string resume;                             ///< advice to the user on how to continue
  std::string token;                              ///< for the processes that the supervisor starts
  std::chrono::milliseconds dead_after{5000};     ///< a leading process that is stopped for longer counts as dead
  std::map<std::string, int> kept;                ///< descriptors that attempts have passed on, by name
  std::map<std::string, std::string> remembered;  ///< texts that attempts have passed on, by name
  std::optional<role_orders> roles;               ///< the running processes
};

/// Parses a message between the supervisor and an attempt's leading process. Requires: it is valid, as both are this
/// program.
boost::json::object read_note(const std::string& text);

/// The attempt that this process leads. Thread: any; one thread for `finish_roles` and `hopeless`.
class attempt {
 public:
  /// The first character of messages of `print`.
  static constexpr char print_mark = 'P';

  /// Returns null if this process is not supervised, or its run is over.
  static attempt* mine();
  /// Returns whether a supervisor restarts this process; it stays true after the first run.
  static bool is_supervised();
  /// Makes this process lead an attempt. Called once, by the supervisor's copy.
  static void begin(attempt_history before, message_socket supervisor);

  const attempt_history& before() const { return before_; }
  /// Returns whether another attempt would follow if this one failed now.
  bool may_fail() const;

  /// Returns the descriptor that an earlier attempt has kept under this name, or -1.
  int kept(const std::string& name) const;
  /// Passes a duplicate of a descriptor on to later attempts.
  void keep(const std::string& name, int descriptor);

  /// Returns the text that an earlier attempt has left under this name; empty without one.
  std::string remembered(const std::string& name) const;
  /// Passes a text on to later attempts.
  void remember(const std::string& name, const std::string& text);

  /// Has the supervisor write `text`, which contains epochs up to `reported`, to stdout. Returns 0, or an errno.
  int print(std::string_view text, std::uint64_t reported);

  /// Has the supervisor start those of these processes that do not run yet, and end those of other ranks.
  void start_roles(const role_orders& orders);
  /// Sets the silence after which processes of this run count as dead.
  void dead_after(std::chrono::milliseconds time);
  /// Sets the advice to the user if no attempt is left.
  void resume_by(const std::string& text);

  /// Reports that training begins after step `from`. Returns how many steps of the previous attempt must be repeated.
  std::uint64_t begun(std::uint64_t from);
  void reached(std::uint64_t step);
  void saved(std::uint64_t step);
  /// Reports that the environment has ended the attempt; the process must end with `exit_again`.
  void failed(const std::string& why, bool by_device = false);

  /// Reports that the next attempt continues with `trainers` trainers; the process must end with `exit_again`.
  void goes_on_with(std::uint32_t trainers);

  /// Returns why the run cannot begin, if the supervisor has reported that.
  std::optional<std::string> hopeless();
  /// Reports that the run is over, with success if `done`, and waits until its processes have ended. Then this process
  /// is no longer supervised.
  roles_end finish_roles(bool done);

  /// The run is over before training has begun: the previous attempt's steps after `step` are lost.
  void stopped_at(std::uint64_t step) { redone_now_ = before_.reached - std::min(step, before_.reached); }
  /// Steps that had to be repeated, including those of `begun`.
  std::uint64_t redone() const { return before_.redone + redone_now_; }
  /// The step of `begun`; null: training has not begun.
  std::optional<std::uint64_t> from_step() const { return from_step_; }

 private:
  attempt(attempt_history before, message_socket supervisor);
  void report(const std::string& what, std::uint64_t number);
  void report(const std::string& what, const std::string& text, int attached = -1);

  attempt_history before_;
  message_socket supervisor_;
  std::uint64_t redone_now_ = 0;
  std::optional<std::uint64_t> from_step_;
  std::uint64_t reported_step_ = 0;
  bool has_saved_ = false;
};

}  // namespace troupe::launch
