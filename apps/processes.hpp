// One process for each role of a run on this machine: started, watched and ended by the one that was called.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/subcommand.hpp"
#include "base/child_process.hpp"
#include "cluster/run.hpp"

namespace troupe::apps {

/// What `finish` should allow when the run is over and they know it.
constexpr std::chrono::milliseconds seen_off_after{700};
/// The same when the run has failed: those who are still there may never end by themselves.
constexpr std::chrono::milliseconds let_go_after{200};

/// The processes of a run with --processes. For one thread.
class role_processes {
 public:
  role_processes() = default;
  /// Ends those that are still there.
  ~role_processes();
  role_processes(const role_processes&) = delete;
  role_processes& operator=(const role_processes&) = delete;

  /// Starts servers and trainers, which join the master at `where`. Its command line shows role and rank of each; what
  /// else it needs is in its environment, `variables` among it. If the system cannot start them, `missing` says so.
  void start(const model::job& what, const links::endpoint& where, const cluster::network_options& network,
             const machine_options& machine, const std::vector<std::string>& variables);

  /// Why there are not all of them, as in `server 0 (pid 17) ended with exit code 1`; null while all are there.
  std::optional<std::string> missing();

  /// The most memory that any of those that have ended ever had. Others of this process do not count: whoever became it
  /// by exec, as shells do, may have waited for any program before.
  double peak_rss_mib() const;

  /// Waits for those that are there, but not longer than `timeout`, then ends them. Returns a line for each that a
  /// signal had ended before, as in `trainer 1 (pid 17) was ended by signal 9`: to others its connection was closed.
  std::vector<std::string> finish(std::chrono::milliseconds timeout);

 private:
  struct process {
    std::string name;
    child_process child;
  };

  bool start_one(const char* role, std::uint32_t rank, const child_options& options);
  void poll(child_process& child);
  void note_end(const child_process& child);

  std::vector<process> all_;
  long peak_rss_kib_ = 0;
  std::optional<std::string> not_started_;
};

/// Leaves the devices of `machine` to the processes of a run with --processes. Two of them cannot share a device: where
/// nobody has asked for CUDA, trainers go to the processor then, which `out` tells; else it is a fault.
std::optional<fault> give_to_processes(machine_options& machine, const model::job& what, console& out);

/// How a run goes whose servers and trainers are processes that it starts.
struct children_options {
  /// With the user's token, or none: then they get one that nobody else has.
  cluster::network_options network;
  /// Their links have TLS by the token; else they are plain, and never leave the machine.
  bool tls = false;
  machine_options machine;
  /// Of their environment, beside what they need.
  std::vector<std::string> variables;
  /// What to run to go on from the last checkpoint, in words.
  std::string resume;
};

/// For a run whose servers and trainers are `children`: they are started when the master listens. `children` and `what`
/// stay where they are until the run is over. Fault: there is no TLS here.
result<cluster::gather_options> gather_children(role_processes& children, const model::job& what,
                                                children_options options);

/// What a process that `role_processes` has started finds in its environment; null if it was started otherwise.
struct role_order {
  links::endpoint master;
  cluster::network_options network;
  machine_options machine;
};
result<role_order> read_role_order();

}  // namespace troupe::apps
