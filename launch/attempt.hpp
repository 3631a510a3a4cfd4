// A supervised run is a sequence of attempts: each is led by a process of its own, and the next one goes on from the
// newest checkpoint when the environment has ended one. This is an attempt as the process that leads it sees it;
// launch/supervisor.hpp is the other side.

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

/// The processes for servers and trainers, which the supervisor starts, and starts again when they are lost.
struct role_orders {
  /// The command that each process begins with: the program's name, and its arguments before the role's.
  std::vector<std::string> command;
  /// Added to their environment.
  std::vector<std::string> variables;
  std::uint32_t servers = 0;
  std::uint32_t trainers = 0;
};

/// The end of these processes.
struct roles_end {
  double peak_rss_mib = 0;
  std::vector<std::string> lines;  ///< one for each that a signal had ended
};

/// What outlives an attempt. The supervisor's process has it, and each attempt a copy.
struct attempt_history {
  std::uint64_t number = 1;      ///< of this attempt
  std::uint64_t restarts = 0;    ///< attempts without a new checkpoint that may follow
  std::uint64_t losses = 0;      ///< attempts that have failed since the last new checkpoint
  std::uint64_t reached = 0;     ///< the newest step of the attempt before
  bool leader_was_lost = false;  ///< the one before: `reached` is what it has reported last, and may be too small
  std::uint64_t redone = 0;      ///< steps that the attempts before had to do again
  std::uint64_t saved = 0;       ///< the newest checkpoint's step
  std::uint64_t told = 0;        ///< the last epoch that stdout has
  std::string lost;              ///< why the attempt before has failed
  std::chrono::steady_clock::time_point lost_at{};
  std::string resume;                             ///< how a person goes on, in words
  std::string token;                              ///< of the processes that the supervisor starts
  std::chrono::milliseconds dead_after{5000};     ///< a leading process that is stopped for longer counts as dead
  std::map<std::string, int> kept;                ///< descriptors that attempts have left to the next ones
  std::map<std::string, std::string> remembered;  ///< texts, likewise
  std::optional<role_orders> roles;               ///< of the processes that run
};

/// Reads what the supervisor and the process that leads an attempt tell each other, both of which are this program.
boost::json::object read_note(const std::string& text);

/// The attempt that this process leads. Thread: any, except for `finish_roles` and `hopeless`: one.
class attempt {
 public:
  /// The first character of messages of `print`.
  static constexpr char print_mark = 'P';

  /// Returns null if nobody supervises this process, or its run is over.
  static attempt* mine();
  /// Returns whether this process is one that a supervisor begins again, also after its first run.
  static bool is_supervised();
  /// Makes this process lead an attempt. Called once, by the supervisor's copy.
  static void begin(attempt_history before, message_socket supervisor);

  const attempt_history& before() const { return before_; }
  /// Returns whether another attempt would follow if this one failed now.
  bool may_fail() const;

  /// Returns the descriptor that an earlier attempt has kept under this name; -1: none has.
  int kept(const std::string& name) const;
  /// Leaves a duplicate of a descriptor to the next attempts.
  void keep(const std::string& name, int descriptor);

  /// Returns the text that an earlier attempt has left under this name; empty: none has.
  std::string remembered(const std::string& name) const;
  /// Leaves a text to the next attempts.
  void remember(const std::string& name, const std::string& text);

  /// Has the supervisor write to stdout, which tells the epochs up to `told`. Returns 0, or an errno.
  int print(std::string_view text, std::uint64_t told);

  /// Has the supervisor start those of these processes that do not run already, and end those of other ranks.
  void start_roles(const role_orders& orders);
  /// Sets after which silence processes of this run count as dead.
  void dead_after(std::chrono::milliseconds time);
  /// Tells how a person would go on if no attempt is left.
  void resume_by(const std::string& words);

  /// Training begins after step `from`. Returns how many steps of the attempt before have to be done again.
  std::uint64_t begun(std::uint64_t from);
  void reached(std::uint64_t step);
  void saved(std::uint64_t step);
  /// The environment has ended the attempt; the process is to end with `exit_again`.
  void failed(const std::string& why, bool by_device = false);

  /// The attempt has ended so that the next one goes on with so many trainers; the process is to end with `exit_again`.
  void goes_on_with(std::uint32_t trainers);

  /// Returns why the run cannot begin, if the supervisor has told so.
  std::optional<std::string> hopeless();
  /// The run is over, with success if `done`: waits until its processes have ended. Then nobody supervises this
  /// process.
  roles_end finish_roles(bool done);

  /// The run is over before training has begun: the steps after `step` that the attempt before did are lost.
  void stopped_at(std::uint64_t step) { redone_now_ = before_.reached - std::min(step, before_.reached); }
  /// Steps that had to be done again, those of `begun` among them.
  std::uint64_t redone() const { return before_.redone + redone_now_; }
  /// The step of `begun`; null: training has not begun.
  std::optional<std::uint64_t> from_step() const { return from_step_; }

 private:
  attempt(attempt_history before, message_socket supervisor);
  void tell(const std::string& what, std::uint64_t number);
  void tell(const std::string& what, const std::string& text, int attached = -1);

  attempt_history before_;
  message_socket supervisor_;
  std::uint64_t redone_now_ = 0;
  std::optional<std::uint64_t> from_step_;
  std::uint64_t told_step_ = 0;
  bool has_saved_ = false;
};

}  // namespace troupe::launch
