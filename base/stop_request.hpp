// A request to end work early, and how long work notices it: it checks between its pieces.

#pragma once

#include <atomic>
#include <string_view>

#include "base/result.hpp"

namespace troupe {

/// Lets another thread, or a signal handler, stop work. Thread: any.
class stop_request {
 public:
  /// Requests that the work ends early: a run after its current step. May be called repeatedly.
  void request() { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const { return requested_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> requested_{false};
};

/// Makes the calling thread's work heed `stop` from now on; null: none. Requires: it outlives that work.
void heed(const stop_request* stop);

/// Returns whether the calling thread's work should end early. Work of more than a second checks between pieces of less
/// than a second, and ends with `stopped`.
bool stop_asked();

/// Returns the fault of work on `what` that has ended early.
tl::unexpected<fault> stopped(std::string_view what);

/// Makes this thread heed a request during this object's lifetime.
class stop_scope {
 public:
  explicit stop_scope(const stop_request& stop);
  ~stop_scope();
  stop_scope(const stop_scope&) = delete;
  stop_scope& operator=(const stop_scope&) = delete;

 private:
  const stop_request* before_;
};

}  // namespace troupe
