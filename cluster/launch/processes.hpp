// The processes of a run with --processes: one for each server and trainer, started and watched by this process.

#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/child_process.hpp"
#include "cluster/launch/attempt.hpp"
#include "cluster/launch/console.hpp"
#include "cluster/launch/machine_options.hpp"
#include "cluster/nodes/run.hpp"
#include "model/job.hpp"

namespace troupe::launch {

/// Timeout of `finish` after a run whose end the processes know.
constexpr std::chrono::milliseconds exit_timeout{700};
/// The timeout of `finish` after a failed run: some processes may never end by themselves.
constexpr std::chrono::milliseconds kill_timeout{200};

/// Options of a run with --processes.
struct children_options {
  /// The command that each process begins with: the program's name, and its arguments before the role's.
  std::vector<std::string> command;
  std::uint32_t servers = 0;
  std::uint32_t trainers = 0;
  /// With the user's token, or none: then the processes get a random one.
  nodes::network_options network = {};
  /// Links have TLS by the token; else they are plain, and stay on this machine.
  bool tls = false;
  machine_options machine = {};
  /// Additional environment variables of the processes.
  std::vector<std::string> variables = {};
  /// The command that resumes from the last checkpoint, as text.
  std::string resume = {};
};

/// Returns the order to start a run's processes, which join the master at `where`.
role_orders orders_of(const children_options& options, const links::endpoint& where);

/// The processes of a run with --processes. Thread: one at a time.
class role_processes {
 public:
  role_processes() = default;
  /// Kills the processes that still run.
  ~role_processes();
  role_processes(const role_processes&) = delete;
  role_processes& operator=(const role_processes&) = delete;

  /// Starts servers and trainers. Role and rank are on the command line of each; the rest is in its environment. If the
  /// system cannot start them, `missing` returns the reason.
  void start(const role_orders& orders);

  /// Restarts processes that have ended or could not be started; first kills stopped ones.
  void start_missing(const role_orders& orders);
  /// Returns a line for each process that has ended without success since the last call, and for one that the system
  /// could not start.
  std::vector<std::string> take_lost();
  /// Whether any had ended, even with success, at the last `take_lost`.
  bool some_ended() const;

  /// Returns why a process is missing, as in `server 0 (pid 17) ended with exit code 1`; null while all run.
  std::optional<std::string> missing();

  /// Returns the largest peak memory of the ended processes. Other children of this process do not count: a shell that
  /// became this process by exec may have had children of any size.
  double peak_rss_mib() const;

  /// Waits for the processes for at most `timeout`, then kills them. Returns a line for each process that a signal had
  /// ended before, as in `trainer 1 (pid 17) was ended by signal 9`; other processes only saw a closed connection.
  std::vector<std::string> finish(std::chrono::milliseconds timeout);

 private:
  struct process {
    std::string name;
    child_process child;
    bool is_reported = false;  ///< its end was reported
    bool trains = false;
    std::uint32_t rank = 0;
    std::optional<std::chrono::steady_clock::time_point> stopped_since = {};
  };

  bool is_stopped(process& one);

  bool start_one(const role_orders& orders, const char* role, std::uint32_t rank);
  void end_surplus(child_process& child);
  void poll(child_process& child);
  void note_end(const child_process& child);

  std::list<process> all_;
  long peak_rss_kib_ = 0;
  std::optional<std::string> not_started_;
};

/// Assigns the devices of `machine` to the processes of a run with --processes. Two processes cannot share a device: if
/// there are too few, trainers use the processor and `out` says so, unless CUDA was requested: then it is a fault.
result<void> give_to_processes(machine_options& machine, std::uint32_t trainers, console& out);

/// Returns the options of a run whose servers and trainers are `children`, which are started when the master listens.
/// Requires: `children` outlives the run. Fault: TLS is not available.
result<nodes::gather_options> gather_children(role_processes& children, children_options options);

/// Takes part in a run as `role` with `rank`, in a process that `role_processes` has started. `make_trainer` makes the
/// actor of the role `trainer`. `expected`: the job that the run must have, as in `node_options`.
result<void> play_role(const std::string& role, const std::string& rank, actors::trainer_maker make_trainer,
                       console& out, std::optional<std::vector<model::setting>> expected = std::nullopt);

}  // namespace troupe::launch
