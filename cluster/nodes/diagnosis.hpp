// The diagnosis written when a step takes too long or a user asks: the recordings of all processes of the run, the
// stacks of their threads, and the conclusions. Evidence that needs no other process's answer comes first, since a
// stopped process does not answer.

#pragma once

#include <caf/actor_system.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/private_folder.hpp"
#include "base/result.hpp"
#include "protocol/messages.hpp"
#include "trace/analysis/blocked.hpp"
#include "trace/record/recorder.hpp"

namespace troupe::nodes {

/// Watchdog of the steps of this process's trainers, and of their calls to others outside of steps.
class watchdog {
 public:
  /// `timeout`: null means 20 times the longest earlier step, at least 10 s, and 60 s for the first step. A null
  /// `recorder` finds nothing.
  watchdog(const trace::recorder* recorder, std::optional<std::chrono::milliseconds> timeout)
      : recorder_(recorder), timeout_(timeout) {}

  /// Returns a line about a step or, if a timeout is set, a call past its deadline, once for each. Call it several
  /// times a second.
  std::optional<std::string> look();

 private:
  std::optional<std::string> look_at_calls(const trace::board_entry& actor, double limit_s);

  const trace::recorder* recorder_;
  const std::optional<std::chrono::milliseconds> timeout_;
  std::map<std::uint32_t, std::uint64_t> reported_;        ///< by actor: the newest reported step
  std::map<std::uint32_t, std::uint64_t> reported_calls_;  ///< by actor: when the newest reported call began
  std::uint64_t last_look_ = 0;                            ///< in ticks
  std::uint64_t awake_since_ = 0;
};

/// Reasons that a user gives: the diagnosis is written even if the same hang was reported before.
constexpr std::string_view signal_here = "a signal asked for it";
constexpr std::string_view signal_to_member = "a signal to a member asked for it";

/// Passes a report of trouble from one thread to another.
class alert_slot {
 public:
  void put(std::string text) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }
  std::optional<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(text_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<std::string> text_;
};

/// Returns this process's evidence. `boot`: the machine of the asking process; on the same machine, rings are not
/// copied.
msg::evidence evidence_of(const trace::recorder* recorder, const std::string& boot);

/// Identifies a hang by the trainers' positions, so that the same hang is recognized again.
class known_hang {
 public:
  known_hang() = default;
  known_hang(const trace::recording& run, const analysis::blocked_report& found);

  /// Whether `now`, found later, is the same hang: it has the same root, and a trainer that has not advanced.
  bool is_still_there(const known_hang& now) const;

 private:
  std::optional<std::uint16_t> root_;
  std::map<std::uint16_t, std::vector<std::uint64_t>> places_;  ///< by trainer: step and open calls
};

/// A diagnosis: a folder inside the recorder's with rings, `stacks.txt`, `blocked.json`, and `summary.txt`, which
/// begins with the verdict. It blocks: never use it on an actor's thread.
class diagnosis {
 public:
  /// Copies the rings of the run's processes on this host. `why`: the reason for the diagnosis.
  static result<diagnosis> begin(const trace::recorder& recorder, std::string why);

  /// Whether the rings cover `members` servers and trainers; if not, the others are on other hosts.
  bool has_all(std::size_t members) const;
  /// Adds the stacks of all threads and the rings of processes on other hosts, from all that answer within 15 s.
  void collect(caf::actor_system& system, const msg::master_actor& boss) const;
  /// Analyzes the copied rings and writes the results. If all rings are of this host, it reads these processes again:
  /// an actor that has moved meanwhile is not blocked. Returns the verdict.
  result<std::string> conclude(bool has_all);

  /// Removes the folder.
  void drop() const;

  const std::filesystem::path& folder() const { return folder_->path(); }
  /// Requires: `conclude` was called.
  const known_hang& found() const { return found_; }

 private:
  diagnosis(const trace::recorder& recorder, std::string why, private_folder folder);

  const trace::recorder* recorder_;
  std::string why_;
  std::shared_ptr<const private_folder> folder_;
  std::uint64_t run_ = 0;
  known_hang found_;
};

/// Writes and reports diagnoses if there is a recording. A hang that many trainers notice is reported once.
class diagnoses {
 public:
  /// `recorder`: may be null. `members`: servers and trainers. `report` shows a line to the user; may be null.
  diagnoses(caf::actor_system& system, const msg::master_actor& boss, const trace::recorder* recorder,
            std::size_t members, std::function<void(const std::string&)> report)
      : system_(system), boss_(boss), recorder_(recorder), members_(members), report_(std::move(report)) {}

  void write(const std::string& why);

 private:
  result<void> write_new(const std::string& why);
  void report(const std::string& line) const;

  caf::actor_system& system_;
  const msg::master_actor& boss_;
  const trace::recorder* recorder_;
  const std::size_t members_;
  const std::function<void(const std::string&)> report_;
  std::optional<known_hang> last_;  ///< the hang reported last
  bool last_was_of_this_host_ = false;
  std::vector<std::future<void>> collecting_;
};

}  // namespace troupe::nodes
