// The diagnosis written when a step takes too long or a user asks: the recordings of all processes of the run, the
// stacks of their threads, and what follows from them. What needs no answer of another process comes first: one that is
// stopped would not give any.

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

#include "analysis/blocked.hpp"
#include "base/private_folder.hpp"
#include "base/result.hpp"
#include "protocol/messages.hpp"
#include "trace/recorder.hpp"

namespace troupe::nodes {

/// Watchdog of the steps of this process's trainers, and of their calls to others outside of steps.
class watchdog {
 public:
  /// `timeout`: null: 20 times the longest earlier step, at least 10 s, and 60 s for the first step. `recorder`: null:
  /// finds nothing.
  watchdog(const trace::recorder* recorder, std::optional<std::chrono::milliseconds> timeout)
      : recorder_(recorder), timeout_(timeout) {}

  /// Returns a line about a step or, if a timeout is set, a call past its deadline, once for each. Call it several
  /// times a second.
  std::optional<std::string> look();

 private:
  std::optional<std::string> look_at_calls(const trace::board_entry& actor, double limit_s);

  const trace::recorder* recorder_;
  const std::optional<std::chrono::milliseconds> timeout_;
  std::map<std::uint32_t, std::uint64_t> told_;        ///< by actor: the newest reported step
  std::map<std::uint32_t, std::uint64_t> told_calls_;  ///< by actor: when the newest reported call began
  std::uint64_t last_look_ = 0;                        ///< in ticks
  std::uint64_t awake_since_ = 0;
};

/// Why a diagnosis is written that a user wants, whatever was written before.
constexpr std::string_view signal_here = "a signal asked for it";
constexpr std::string_view signal_to_member = "a signal to a member asked for it";

/// Passes a report of trouble from one thread to another.
class alert_slot {
 public:
  void put(std::string words) {
    const std::lock_guard lock(mutex_);
    words_ = std::move(words);
  }
  std::optional<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(words_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<std::string> words_;
};

/// Returns this process's evidence. `boot`: the machine of the asking process; on the same machine, rings are not
/// copied.
msg::evidence evidence_of(const trace::recorder* recorder, const std::string& boot);

/// Where trainers were when a hang was found, by which the same hang is known again.
class known_hang {
 public:
  known_hang() = default;
  known_hang(const trace::recording& run, const analysis::blocked_report& found);

  /// Whether what was found later, `now`, is the same: the same root, and a trainer that has not come further since.
  bool is_still_there(const known_hang& now) const;

 private:
  std::optional<std::uint16_t> root_;
  std::map<std::uint16_t, std::vector<std::uint64_t>> places_;  ///< of trainers: step and open calls
};

/// A diagnosis: a folder inside the recorder's with rings, `stacks.txt`, `blocked.json`, and `summary.txt`, which
/// begins with the verdict. Nothing here is for an actor's thread: it blocks.
class diagnosis {
 public:
  /// Copies the rings of the run's processes on this host. `why`: what it is written for.
  static result<diagnosis> begin(const trace::recorder& recorder, std::string why);

  /// Whether these are the rings of so many servers and trainers: else others are on other hosts.
  bool has_all(std::size_t members) const;
  /// Adds the stacks of all threads, and the rings of processes on other hosts, of all that answer within seconds.
  void collect(caf::actor_system& system, const msg::master_actor& boss) const;
  /// Judges what has been copied, and writes it down. If all rings are of this host, it looks at these processes again:
  /// what has moved meanwhile is not blocked. Returns the verdict.
  result<std::string> judge(bool has_all);

  /// Removes the folder.
  void drop() const;

  const std::filesystem::path& folder() const { return folder_->path(); }
  /// Requires: it was judged.
  const known_hang& found() const { return found_; }

 private:
  diagnosis(const trace::recorder& recorder, std::string why, private_folder folder);

  const trace::recorder* recorder_;
  std::string why_;
  std::shared_ptr<const private_folder> folder_;
  std::uint64_t run_ = 0;
  known_hang found_;
};

/// Writes diagnoses, if there is a recording, and reports them: of a hang that many trainers notice, once.
class diagnoses {
 public:
  /// `recorder`: may be null. `members`: servers and trainers. `tell` takes a line for people; may be null.
  diagnoses(caf::actor_system& system, const msg::master_actor& boss, const trace::recorder* recorder,
            std::size_t members, std::function<void(const std::string&)> tell)
      : system_(system), boss_(boss), recorder_(recorder), members_(members), tell_(std::move(tell)) {}

  void write(const std::string& why);

 private:
  result<void> write_new(const std::string& why);
  void tell(const std::string& line) const;

  caf::actor_system& system_;
  const msg::master_actor& boss_;
  const trace::recorder* recorder_;
  const std::size_t members_;
  const std::function<void(const std::string&)> tell_;
  std::optional<known_hang> last_;  ///< the one that was told last
  bool last_was_of_this_host_ = false;
  std::vector<std::future<void>> collecting_;
};

}  // namespace troupe::nodes
