// A wish that work ends early, and how long work hears of it: it asks between its pieces.

#pragma once

#include <atomic>
#include <string_view>

#include "base/result.hpp"

namespace troupe {

/// Lets another thread, or a signal handler, stop work. Thread: any.
class stop_request {
 public:
  /// Asks the work to end early: a run after its current step. May be called repeatedly.
  void request() { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const { return requested_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> requested_{false};
};

/// Has the calling thread's work heed `wish` from now on; null: none. Requires: it outlives that.
void heed(const stop_request* wish);

/// Returns whether the calling thread's work is to end early. Work that may take more than a second asks between pieces
/// of at most a part of a second, and ends with `stopped`.
bool stop_asked();

/// The fault of work on `what` that has ended early.
tl::unexpected<fault> stopped(std::string_view what);

/// Has this thread heed a wish while it lives.
class stop_scope {
 public:
  explicit stop_scope(const stop_request& wish);
  ~stop_scope();
  stop_scope(const stop_scope&) = delete;
  stop_scope& operator=(const stop_scope&) = delete;

 private:
  const stop_request* before_;
};

}  // namespace troupe
