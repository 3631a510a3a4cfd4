// The options by which a run survives the loss of processes, and what the process that leads an attempt does for it.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/run_observer.hpp"
#include "base/result.hpp"
#include "launch/attempt.hpp"
#include "launch/console.hpp"
#include "model/job.hpp"
#include "nodes/run.hpp"
#include "trace/recorder.hpp"

namespace troupe::launch {

/// Reads the options of the set `restarts`, `elastic` and `supervised`, from `given` (of command line and job file) and
/// makes this process a supervisor if they want one: then it returns in the process that leads an attempt. Call it
/// before devices are looked for and threads are started. No effect in a process that a supervisor has made.
result<void> supervise_if_wanted(const std::vector<model::setting>& given, console& out);

/// How long lost members may take to come back.
result<std::chrono::milliseconds> read_rejoin_timeout(const std::vector<model::setting>& given);

/// Fits the gathering of members to the attempt that this process leads, if it leads one: they come to the same port in
/// each attempt. `resume` of `gather` is told when no attempt is left.
result<void> fit_to_attempt(nodes::gather_options& gather);

/// Returns how the members of a run gather that join a master at `where` from elsewhere; `out` gets a note when it
/// listens.
result<nodes::gather_options> gather_at(const links::endpoint& where, nodes::network_options network,
                                        std::string resume, std::chrono::milliseconds rejoin_timeout,
                                        std::uint32_t servers, std::uint32_t trainers, console& out);

/// Has the supervisor know how far the attempt is. Requires: the observer's functions are set, those that are wanted.
/// `on_attempt` is called when training goes on after an attempt was lost. `recorder` may be null.
struct attempt_news {
  std::uint64_t number = 0;
  std::string lost;  ///< why the one before has failed
  std::uint64_t from_step = 0;
  std::uint64_t lost_steps = 0;  ///< that have to be done again
  bool may_be_more = false;      ///< the process that counted them was lost
  double seconds = 0;            ///< from the loss to here
  std::uint32_t trainers = 0;
};
void report_to_supervisor(actors::run_observer& observer, std::uint32_t trainers, trace::recorder* recorder,
                          std::function<void(const attempt_news&)> on_attempt);

/// Returns the line for people, and the event.
std::string words_of(const attempt_news& news);
std::string event_of(const attempt_news& news);

/// What the supervisor tells at the end of a run.
struct supervision_end {
  roles_end roles;
  std::uint64_t attempts = 1;
  std::uint64_t steps_redone = 0;
};
/// Ends the supervision of this process, if there is one: the run is over, after so many steps; null: without success.
supervision_end end_supervision(std::optional<std::uint64_t> steps);

/// Returns a line for people if losses may change the weights of the run that this process begins; null: they do not.
std::optional<std::string> words_of_what_losses_change(const model::job& what, const actors::compute_devices& devices);

/// Whether an attempt that this process leads has failed of the environment; then the supervisor has been told, and the
/// process is to end with `exit_again`.
bool fails_attempt(const fault& why);

}  // namespace troupe::launch
