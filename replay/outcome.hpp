// A whole run's replay as it goes, and how it went.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "replay/replay.hpp"

namespace troupe::replay {

/// While it exists, a replay that reaches no further message is stopped.
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
std::string words_of(const replay& again, const replay_order& order, const std::string& digest);

}  // namespace troupe::replay
