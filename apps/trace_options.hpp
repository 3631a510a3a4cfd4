// The options by which a run is recorded, and the record of a run in this process.

#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/console.hpp"
#include "apps/subcommand.hpp"
#include "model/job.hpp"
#include "page/live_page.hpp"
#include "trace/recorder.hpp"

namespace troupe::apps {

struct trace_order {
  trace::recorder::options how;
  std::string filter;  ///< `how.wanted` as it was given
  /// Somebody has asked for it, other than by variables: then it must work, and is told of.
  bool is_wanted = false;
  /// The folder is this run's own, in the system's place for temporary files: `run_trace::start` makes and names it.
  bool own_folder = false;
  /// Show the run in a browser, on this port (0: any); null: do not.
  std::optional<std::uint16_t> page;
  /// How long a step may take; null: learned from earlier ones.
  std::optional<std::chrono::milliseconds> step_timeout;
};

/// Reads the options of the set `trace`; `given`: those of command line and job file. Variables stand in for those that
/// are missing, so the processes of a run can share them.
result<trace_order> read_trace_options(const std::vector<model::setting>& given);

/// As variables, for a process that takes part in the same run. `is_on`: this process does record.
std::vector<std::string> trace_variables(const trace_order& order, bool is_on);

/// The recorder of a run's process, from its start to its end.
class run_trace {
 public:
  run_trace(run_trace&&) = default;
  run_trace& operator=(run_trace&&) = delete;
  /// A run that never began leaves nothing.
  ~run_trace() { finish_quietly(true); }

  /// Begins as `order` says; gives it its folder, if that is the run's own. A fault if that cannot be and was asked
  /// for; else a warning, and nothing is recorded.
  static result<run_trace> start(trace_order& order, console& out);

  trace::recorder* recorder() const { return recorder_.get(); }

  /// The run is over. What is kept of it is told, but for a clean end in mode `ring`: then nothing is.
  void finish(bool clean, console& out);
  /// The same, where somebody else tells.
  void finish_quietly(bool clean);

 private:
  run_trace() = default;
  void remove_recorder();

  std::unique_ptr<trace::recorder> recorder_;
  std::unique_ptr<page::live_page> page_;
  bool own_folder_ = false;
  bool is_wanted_ = false;
};

}  // namespace troupe::apps
