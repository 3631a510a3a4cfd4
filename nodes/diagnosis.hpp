// The diagnosis written when a step takes too long or a user asks: the recordings of all processes of the run, the
// stacks of their threads, and what follows from them.

#pragma once

#include <caf/actor_system.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "protocol/messages.hpp"
#include "trace/recorder.hpp"

namespace troupe::nodes {

/// Watchdog of the steps of this process's trainers.
class watchdog {
 public:
  /// `timeout`: null: 20 times the longest earlier step, at least 10 s, and 60 s for the first step. `recorder`: null:
  /// finds nothing.
  watchdog(const trace::recorder* recorder, std::optional<std::chrono::milliseconds> timeout)
      : recorder_(recorder), timeout_(timeout) {}

  /// Returns a line about a step past its deadline, once per step. Call it now and again.
  std::optional<std::string> look();

 private:
  const trace::recorder* recorder_;
  const std::optional<std::chrono::milliseconds> timeout_;
  std::map<std::uint32_t, std::uint64_t> told_;  ///< by actor: the newest reported step
};

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

/// A diagnosis: its first line, and its folder.
struct diagnosis {
  std::string verdict;
  std::filesystem::path folder;
};

/// Gathers evidence from all processes that answer within seconds and writes a folder inside the recorder's: their
/// rings, `stacks.txt`, `blocked.json`, and `summary.txt`, which begins with the verdict. `why`: the cause. Tells the
/// master the verdict. Blocks; not for an actor's thread.
result<diagnosis> diagnose(caf::actor_system& system, const msg::master_actor& boss, const trace::recorder& recorder,
                           const std::string& why);

}  // namespace troupe::nodes
