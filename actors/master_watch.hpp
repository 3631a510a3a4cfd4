// Notices when a node's control connection ends, and tells its actor.

#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "actors/run_in.hpp"

namespace troupe {

/// The end may come before the actor is there. May be used from any thread.
class master_watch {
 public:
  void lost(const std::string& why) {
    const std::lock_guard lock(mutex_);
    why_ = why;
    tell();
  }

  /// `call` is called as `node`.
  void watcher(const caf::strong_actor_ptr& node, std::function<void(const std::string&)> call) {
    const std::lock_guard lock(mutex_);
    node_ = node;
    call_ = std::move(call);
    tell();
  }

  void forget() {
    const std::lock_guard lock(mutex_);
    node_ = nullptr;
    call_ = nullptr;
  }

 private:
  void tell() {
    if (node_ && why_) run_in(node_, [call = call_, why = *why_] { call(why); });
  }

  std::mutex mutex_;
  std::optional<std::string> why_;
  caf::strong_actor_ptr node_;
  std::function<void(const std::string&)> call_;
};

}  // namespace troupe
