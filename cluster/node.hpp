// A node: a process that takes part in a run with servers or trainers of it.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cluster/run.hpp"
#include "links/endpoint.hpp"
#include "model/job.hpp"
#include "trace/recorder.hpp"

namespace troupe::cluster {

struct node_options {
  links::endpoint master;
  network_options network;
  bool trains = false;
  /// How many servers or trainers; and the rank of the first, if it matters.
  std::uint32_t count = 1;
  std::optional<std::uint32_t> rank;
  /// Refused if another node has it.
  std::string name;
  /// Where others reach this node's data links; port 0: the one that is found. Else the address from which the master
  /// was reached.
  std::optional<links::endpoint> advertise;
  /// What the job is believed to be: the run is refused if it differs.
  std::optional<std::vector<model::setting>> expected_job;
  /// How long to try to reach the master.
  std::chrono::milliseconds join_timeout{30'000};
  std::size_t threads = 0;
  actors::compute_devices devices;
  /// Null: nothing is recorded. Must outlive the run.
  trace::recorder* recorder = nullptr;
  watch_options watch;
  /// Called on other threads: a line for the log.
  std::function<void(const std::string&)> on_note;
};

/// Joins the run and stays until it has ended. A wish to stop is passed on to the master: the whole run stops.
/// Faults: why it could not join, or why the run has failed.
result<void> run_node(const node_options& options, const stop_request* stop_wish);

}  // namespace troupe::cluster
