// Watches the replay of a whole run, and describes its outcome.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "trace/replay/replay.hpp"

namespace troupe::replay {

/// While it exists, it stops a replay that handles no further message for 60 s.
class stall_watch {
 public:
  explicit stall_watch(replay& of);

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

/// As in `1 message`, `1,234 messages`.
std::string messages(std::uint64_t count);

/// Whether every recorded message came as recorded, and the weights are those of the recorded run if that was whole.
bool is_same(const replay& again, const replay_order& order, const std::string& digest);

/// Returns the outcome as text; `digest`: of the weights.
std::string description_of(const replay& again, const replay_order& order, const std::string& digest);

}  // namespace troupe::replay
