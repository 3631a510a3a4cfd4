// What a run shows while it runs: a live line or lines of progress, the events of epochs and checkpoints, notes.

#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "apps/progress.hpp"
#include "apps/report.hpp"
#include "apps/subcommand.hpp"
#include "base/result.hpp"
#include "cluster/launch/restarts.hpp"
#include "cluster/nodes/run.hpp"
#include "model/job.hpp"

namespace troupe::apps {

/// Shows a run's progress, and stops the run if stdout is closed. Thread: any.
class run_display {
 public:
  /// Requires: `out` outlives it.
  run_display(console& out, const model::job& what);
  ~run_display() { out_.flush(); }
  run_display(const run_display&) = delete;
  run_display& operator=(const run_display&) = delete;

  void step(const actors::run_progress& now);
  void epoch(const actors::epoch_summary& now);
  void attempt_began(const attempt_news& now);
  void checkpoint(const actors::checkpoint_summary& now);

  /// Reports an error that does not end the run.
  void error(const fault& what);
  void note(const std::string& line);
  /// Prints a line even with --quiet.
  void report(const std::string& line);

  void close() { progress_.clear(); }

  const epoch_history& history() const { return history_; }

 private:
  void look_after_output();

  console& out_;
  progress_display progress_;
  epoch_history history_;
  std::uint64_t reported_ = 0;  ///< the last epoch whose event is on stdout, or about to be
  std::mutex mutex_;
};

}  // namespace troupe::apps
