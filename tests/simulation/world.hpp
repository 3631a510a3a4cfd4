// A simulated run: processes, network and disk, the faults, and the start of each attempt.
//
// A run is a sequence of attempts. When a process or a link is lost, the attempt ends for all processes; the next one
// begins from the newest whole checkpoint, with a new number and new actors. The remaining processes rejoin the master;
// new processes take the lost ones' places.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/master/run_observer.hpp"
#include "model/data.hpp"
#include "protocol/messages.hpp"
#include "tests/simulation/scenario.hpp"
#include "tests/simulation/sim_link.hpp"

namespace troupe::simulation {

class sim_plane;
class leader;
class member;

/// The reports of a run.
struct reported_run {
  std::string digest;
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  model::epoch_figures figures;
  std::vector<actors::epoch_summary> epochs;  ///< in the order of the reports; some several times
};

struct outcome {
  std::optional<reported_run> told;  ///< null: the run did not end properly
  std::string problem;               ///< the reason in that case
  std::uint64_t steps = 0;           ///< of the simulation
  std::uint64_t fingerprint = 0;
  std::uint32_t attempts = 0;
  double seconds = 0;  ///< simulated
};

/// A server of a finished attempt.
struct former_server {
  msg::parameter_server_actor server;
  std::uint64_t run = 0;
};

class world {
 public:
  /// Logs the events to stderr if `is_logged`.
  explicit world(const scenario& what, bool is_logged = false);
  ~world();
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  /// Simulates the whole run.
  outcome run();

  // -- for processes ----------------------------------------------------------------

  const scenario& what() const { return what_; }
  event_loop& events() { return events_; }
  sim_disk& disk() { return disk_; }

  /// Connects a process to another. There, `accept` returns an error or nothing; then `done` gets the near end. Calls
  /// `done` with a fault `unreachable` if no process answers.
  using acceptor = std::function<result<void>(const std::shared_ptr<sim_link>&)>;
  using connected = std::function<void(result<std::shared_ptr<sim_link>>)>;
  void connect(event_owner& from, event_owner* to, acceptor accept, connected done);

  std::map<std::string, std::weak_ptr<sim_plane>>& planes() { return planes_; }
  /// Servers of finished attempts, by process and rank. For a planted bug.
  std::map<std::pair<std::uint32_t, std::uint32_t>, former_server>& former_servers() { return former_servers_; }
  /// The process at a place; null without one. The process at place 0 leads.
  member* at(place_number place);
  /// Whether a live process has, or can have, the role of this place: servers or trainers.
  bool has_process_like(place_number place) const;
  leader* the_leader() { return leader_.get(); }
  place_number places() const { return 1 + what_.servers + what_.trainers; }

  /// Starts a new process at a place other than 0.
  void fill(place_number place);
  /// A process has ended by itself.
  void exited(event_owner& one);

  /// An attempt begins.
  void begun();
  void finished(reported_run told);
  void failed(const std::string& why);
  void report(const std::string& args);

 private:
  void lead();
  void inflict(const fault_plan& one);
  void kill(event_owner& receiver, bool at_once, model::random_sequence& random);
  void stop(event_owner& receiver, const fault_plan& how);
  void wake(event_owner& receiver);
  void wake_who_is_due();
  void cut_power(model::random_sequence& random);
  event_owner* process_at(place_number place);
  std::optional<std::string> overdue() const;

  const scenario what_;
  const bool is_logged_;
  event_loop events_;
  sim_disk disk_;
  std::map<std::string, std::weak_ptr<sim_plane>> planes_;
  std::vector<std::unique_ptr<sim_connection>> connections_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, former_server> former_servers_;
  std::unique_ptr<leader> leader_;
  std::vector<std::unique_ptr<leader>> former_leaders_;
  std::vector<std::unique_ptr<member>> members_;
  std::map<place_number, member*> at_place_;
  std::uint32_t next_process_ = 0;
  std::uint32_t attempts_ = 0;
  std::uint32_t late_attempts_ = 0;  ///< after the last fault
  std::uint64_t newest_committed_ = 0;
  std::vector<actors::epoch_summary> epochs_;
  std::map<const event_owner*, std::uint64_t> stops_;            ///< number of stops
  std::vector<std::pair<event_owner*, std::uint64_t>> wake_at_;  ///< the step of waking
  std::uint64_t last_fault_step_ = 0;
  sim_time last_fault_;
  std::optional<reported_run> told_;
  std::string problem_;

  friend class leader;
};

}  // namespace troupe::simulation
