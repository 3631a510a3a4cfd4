// A node: a process that joins a run with servers or trainers.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/trainer/job_trainer.hpp"
#include "actors/trainer/trainer_maker.hpp"
#include "cluster/links/endpoint.hpp"
#include "cluster/nodes/run.hpp"
#include "model/job.hpp"
#include "trace/record/recorder.hpp"

namespace troupe::nodes {

struct node_options : machine_options {
  links::endpoint master;
  network_options network;
  bool trains = false;
  /// Number of servers or trainers; rank of the first, null: any.
  std::uint32_t count = 1;
  std::optional<std::uint32_t> rank;
  /// Must be unique: refused if another node has it.
  std::string name;
  /// Address for this node's data links; port 0: the one found. Null: the address from which the master was reached.
  std::optional<links::endpoint> advertise;
  /// The expected job: the run is refused if its job differs.
  std::optional<std::vector<model::setting>> expected_job;
  /// How long to try to reach the master.
  std::chrono::milliseconds join_timeout{30'000};
  /// The process that leads the run reports the failure to the same user, so a fault of the whole run has no text here.
  bool leader_reports = false;
  actors::trainer_maker make_trainer = actors::program_trainer;
  /// Null: nothing is recorded. Requires: it outlives the run.
  trace::recorder* recorder = nullptr;
  watch_options watch;
  /// Called on other threads, with a line for the log.
  std::function<void(const std::string&)> on_note;
  /// Called on another thread with an error line, before this process ends itself since a handler does not return. May
  /// be null.
  std::function<void(const std::string&)> on_overdue = {};
};

/// How a node's part in an attempt at the run has ended.
struct node_end {
  /// Faults: why it could not join, or why the attempt failed.
  result<void> how;
  /// How long the node should try to rejoin, since another attempt may follow; 0: the run is over for this node.
  std::chrono::milliseconds rejoin_within{0};
  /// The attempt was ended on purpose, with nothing lost: the run continues with another number of trainers.
  bool as_wished = false;
};

/// Joins the run and returns when this attempt has ended. A stop request goes to the master and stops the whole run. If
/// an actor's handler never returns, the process ends itself: within `dead_after` of the master's end, or, after a run
/// that the master has ended, within the time in which the node should rejoin.
node_end run_node(const node_options& options, const stop_request* user_stop);

}  // namespace troupe::nodes
