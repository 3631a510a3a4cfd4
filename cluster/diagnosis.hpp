// What is written down when a step takes too long, or when somebody asks: what all processes of the run have recorded,
// where their threads are, and what follows from it.

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

namespace troupe::cluster {

/// Looks for trainers of this process whose step takes too long.
class watchdog {
 public:
  /// `timeout`: null: what earlier steps have taken, twenty times, but 10 s at least, and 60 s for the first.
  /// `recorder`: null: nothing is recorded, and nothing found.
  watchdog(const trace::recorder* recorder, std::optional<std::chrono::milliseconds> timeout)
      : recorder_(recorder), timeout_(timeout) {}

  /// A line on a step that has come to its deadline, once for each step. Call it now and then.
  std::optional<std::string> look();

 private:
  const trace::recorder* recorder_;
  const std::optional<std::chrono::milliseconds> timeout_;
  std::map<std::uint32_t, std::uint64_t> told_;  ///< by actor: the newest step that has been told of
};

/// Something that takes too long, told on one thread and looked after on another.
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

/// What this process can show. `boot`: of whoever asks, who can read the rings of its own machine.
msg::evidence evidence_of(const trace::recorder* recorder, const std::string& boot);

/// A diagnosis: its first line, and the folder in which it is.
struct diagnosis {
  std::string verdict;
  std::filesystem::path folder;
};

/// Gathers evidence from all processes that answer within seconds, and writes a folder within the recorder's: their
/// rings, `stacks.txt`, `blocked.json`, and `summary.txt`, which begins with the verdict. `why`: what led to it. Tells
/// the master. Blocks; not on an actor's thread.
result<diagnosis> diagnose(caf::actor_system& system, const msg::master_actor& boss, const trace::recorder& recorder,
                           const std::string& why);

}  // namespace troupe::cluster
