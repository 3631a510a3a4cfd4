// Options for recording a run, and the recorder of this process.

#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cluster/launch/console.hpp"
#include "model/job.hpp"
#include "page/live_page.hpp"
#include "trace/record/recorder.hpp"
#include "trace/record/stall_watch.hpp"

namespace troupe::launch {

struct trace_order {
  trace::recorder::options how;
  std::string filter;  ///< the text of `how.wanted`
  /// Tracing was requested by options (not only by variables): a failure to start it is a fault.
  bool is_wanted = false;
  /// The folder is the run's own among the temporary files; `run_trace::start` makes and names it.
  bool own_folder = false;
  /// Port of the page (0: any free one); null: no page.
  std::optional<std::uint16_t> page;
  /// Limit for a step; null: learned from earlier steps.
  std::optional<std::chrono::milliseconds> step_timeout;
};

/// Reads the options of the set `trace` from `given` (of command line and job file), else from their variables, which
/// the processes of a run share.
result<trace_order> read_trace_options(const std::vector<model::setting>& given);

/// Returns the options as variables for another process of the run. `is_on`: this process records.
std::vector<std::string> trace_variables(const trace_order& order, bool is_on);

/// Owns the recorder of this process, and ends the recording.
class run_trace {
 public:
  run_trace(run_trace&&) = default;
  run_trace& operator=(run_trace&&) = delete;
  /// Removes the recording of a run that never began.
  ~run_trace() { finish_quietly(true); }

  /// Starts recording by `order`; fills in its folder if that is the run's own. If recording is impossible: a fault
  /// if it was requested, else a warning, and nothing is recorded.
  static result<run_trace> start(trace_order& order, console& out);

  trace::recorder* recorder() const { return recorder_.get(); }
  /// If this process crashes from now on, or ends because a stop is overdue, it says where the recording is.
  void report_if_crashed(const console& out) const;

  /// Records why the run has failed. Returns whether this counts as a clean end: a wrong input does, unless a program's
  /// functions got it in training (`has_begun`) and the trace has a folder of the user's.
  bool note_failure(const fault& why, bool has_begun);

  /// Ends the recording and prints where it is. After a clean end in mode `ring` it is removed.
  void finish(bool clean, console& out);
  /// The same without printing.
  void finish_quietly(bool clean);

 private:
  run_trace() = default;
  void remove_recorder();

  std::unique_ptr<trace::recorder> recorder_;
  std::unique_ptr<trace::stall_watch> stalls_;
  std::unique_ptr<page::live_page> page_;
  bool own_folder_ = false;
  bool is_wanted_ = false;
};

/// Records, in an attempt's leading process, the attempt's number, the step from which training continues once it has
/// begun, and the number of repeated steps. `recorder` may be null.
void describe_attempt(trace::recorder* recorder);

// The token of a live page, from sources that other users of the machine cannot read.

/// Reads the token from `file`, else from the variable TROUPE_PAGE_TOKEN; empty without either. Refuses a file that
/// users other than its owner may read. Faults, of kind input, do not contain the token.
result<std::string> read_page_token(const std::optional<std::string>& file);

}  // namespace troupe::launch
