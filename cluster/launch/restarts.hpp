// Options that let a run survive the loss of processes, and how the leading process carries them out.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/master/run_observer.hpp"
#include "base/result.hpp"
#include "cluster/launch/attempt.hpp"
#include "cluster/launch/console.hpp"
#include "cluster/nodes/run.hpp"
#include "model/job.hpp"
#include "trace/record/recorder.hpp"

namespace troupe::launch {

/// Reads the options of the set `restarts`, `elastic` and `supervised` from `given` (command line and job file), and
/// makes this process a supervisor if they ask for one: then it returns in the process that leads an attempt. Call it
/// before looking for devices and starting threads. No effect in a process that a supervisor has made.
result<void> supervise_if_wanted(const std::vector<model::setting>& given, console& out);

/// Reads how long lost members may take to rejoin.
result<std::chrono::milliseconds> read_rejoin_timeout(const std::vector<model::setting>& given);

/// Adapts `gather` to the attempt that this process leads, if it leads one: members join at the same port in each
/// attempt. `resume` of `gather` is reported when no attempt is left.
result<void> fit_to_attempt(nodes::gather_options& gather);

/// Returns the options for members that join the master at `where` from elsewhere; `out` gets a note when it listens.
result<nodes::gather_options> gather_at(const links::endpoint& where, nodes::network_options network,
                                        std::string resume, std::chrono::milliseconds rejoin_timeout,
                                        std::uint32_t servers, std::uint32_t trainers, console& out);

/// News of an attempt with which training continues after a lost one.
struct attempt_news {
  std::uint64_t number = 0;
  std::string lost;  ///< why the previous one failed
  std::uint64_t from_step = 0;
  std::uint64_t lost_steps = 0;  ///< to be repeated
  bool may_be_more = false;      ///< the process that counted them was lost
  double seconds = 0;            ///< from the loss to here
  std::uint32_t trainers = 0;
};

/// Reports the attempt's progress to the supervisor. Requires: the wanted functions of the observer are set. Calls
/// `on_attempt` when training continues after a lost attempt. `recorder` may be null.
void report_to_supervisor(actors::run_observer& observer, std::uint32_t trainers, trace::recorder* recorder,
                          std::function<void(const attempt_news&)> on_attempt);

/// Return the line for the user, and the event.
std::string description_of(const attempt_news& news);
std::string event_of(const attempt_news& news);

/// The supervisor's figures at the end of a run.
struct supervision_end {
  roles_end roles;
  std::uint64_t attempts = 1;
  std::uint64_t steps_redone = 0;
};
/// Ends the supervision of this process, if there is one: the run is over after `steps` steps; null: without success.
supervision_end end_supervision(std::optional<std::uint64_t> steps);

/// Returns a line for the user if losses may change the weights of the run that this process begins; null: they do not.
std::optional<std::string> lossy_settings_note(const model::job& what, const actors::compute_devices& devices);

/// Whether `why` comes from the environment and ends an attempt that this process leads. Then it has notified the
/// supervisor, and the process must end with `exit_again`.
bool fails_attempt(const fault& why);

}  // namespace troupe::launch
