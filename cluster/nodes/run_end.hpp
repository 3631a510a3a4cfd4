// Announces the end of a run to the threads of its actor system.

#pragma once

#include <caf/actor_system_config.hpp>
#include <caf/thread_hook.hpp>

#include "base/stop_request.hpp"

namespace troupe::nodes {

/// Stops long computations on an actor system's threads, such as drawing the rows of a table, when the run is over:
/// their results are no longer needed, and the system waits for the threads. Requires: it outlives the system.
class run_end {
 public:
  explicit run_end(caf::actor_system_config& config) { config.add_thread_hook<heeding>(over_); }
  run_end(const run_end&) = delete;
  run_end& operator=(const run_end&) = delete;

  /// The announcer's destructor announces the end; declare the announcer after the system.
  class announcer {
   public:
    explicit announcer(run_end& end) : end_(end) {}
    ~announcer() { end_.over_.request(); }
    announcer(const announcer&) = delete;
    announcer& operator=(const announcer&) = delete;

   private:
    run_end& end_;
  };

 private:
  class heeding final : public caf::thread_hook {
   public:
    explicit heeding(const stop_request& over) : over_(over) {}
    void init(caf::actor_system&) override {}
    void thread_started() override { heed(&over_); }
    void thread_terminates() override { heed(nullptr); }

   private:
    const stop_request& over_;
  };

  stop_request over_;
};

}  // namespace troupe::nodes
