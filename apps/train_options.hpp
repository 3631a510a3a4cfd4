// The options of `troupe train`: the settings of a job file, overridden by the command line.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/subcommand.hpp"
#include "cluster/launch/checkpoint_options.hpp"
#include "cluster/launch/machine_options.hpp"
#include "cluster/launch/trace_options.hpp"
#include "cluster/nodes/run.hpp"
#include "model/job.hpp"
#include "model/job_file.hpp"

namespace troupe::apps {

struct train_order {
  model::job what;
  machine_options machine;
  /// One process for each role.
  bool processes = false;
  bool tls = false;  ///< with `processes`: links are encrypted
  nodes::network_options network;
  /// The given network and device options, for the advice on how to resume the run.
  std::string network_options_given;
  std::string device_options_given;
  std::optional<std::string> metrics_csv;
  std::optional<std::string> tensorboard;
  trace_order traced;
  checkpoint_order checkpoints;
  std::chrono::milliseconds rejoin_timeout{};

  /// The job file without the settings that the command line overrides; for `located`.
  model::job_file file;
  /// The given run options, of file and command line.
  std::vector<model::setting> run_settings;
};

/// The name under which attempts at an elastic run remember its memberships.
constexpr const char* memberships_name = "memberships";

/// Adds all options of `read_train_order`, and --print-job.
void add_train_options(CLI::App& app);

/// With --restarts of command line or job file: makes this process a supervisor, and returns in the process that leads
/// an attempt at the run (cluster/launch/supervisor.hpp). Not for orders that only print.
result<void> supervise_if_wanted(const CLI::App& app, console& out);

/// Whether this process computes. If not, the job file's devices are for other processes.
enum class computing : std::uint8_t { here, elsewhere };

/// Reads job file and command line. Faults name the job file's line if they come from it.
result<train_order> read_train_order(const CLI::App& app, computing where = computing::here);

/// The machine and trace options of a process that joins a run, from command line and job file.
struct own_options {
  machine_options machine;
  trace_order traced;
};
result<own_options> read_own_options(const CLI::App& app);

/// Returns the job settings of the job file given with the master's address, or null.
result<std::optional<std::vector<model::setting>>> read_expected_job(const CLI::App& app);

/// With --print-job: prints the order as a job file, with every setting that applies to its data, and the given run
/// options. Returns whether it did.
result<bool> print_if_asked(const CLI::App& app, const train_order& order, console& out);

}  // namespace troupe::apps
