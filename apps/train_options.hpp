// What `troupe train` is told: the settings of a job file, and those of the command line over them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/subcommand.hpp"
#include "apps/trace_options.hpp"
#include "cluster/run.hpp"
#include "model/checkpoint/resume.hpp"
#include "model/job.hpp"
#include "model/job_file.hpp"

namespace troupe::apps {

struct train_order {
  model::job what;
  machine_options machine;
  /// One process for each role, and what they need to know.
  bool processes = false;
  bool tls = false;  ///< their links are encrypted
  cluster::network_options network;
  /// The options of network and devices as they were given, for a command that goes on with the run.
  std::string network_words;
  std::string device_words;
  std::optional<std::string> metrics_csv;
  std::optional<std::string> tensorboard;
  trace_order traced;
  /// Where checkpoints are saved, if anywhere, and how many steps lie between two of them (0: only at the end).
  std::optional<std::string> save;
  std::uint64_t checkpoint_every = 0;
  /// Where the run goes on from.
  std::optional<model::resume_point> resume;

  /// What of the job file counts: the command line has not said otherwise. For `located`.
  model::job_file file;
  /// The options of the run itself that were given, in the file or the command line.
  std::vector<model::setting> run_settings;
};

/// Adds everything that `read_train_order` reads, a switch for --print-job among it.
void add_train_options(CLI::App& app);

/// Whether the process that reads an order is one of those that compute. Else the job file's devices are for others.
enum class computing : std::uint8_t { here, elsewhere };

/// Reads job file and command line. Options of `not_yet` are refused in the file too. Faults are told as the job file's
/// where they come from it.
result<train_order> read_train_order(const CLI::App& app, const std::vector<std::string>& not_yet,
                                     computing where = computing::here);

/// How a process that joins a run uses its machine, by the command line and the job file.
result<machine_options> read_own_machine(const CLI::App& app);

/// The settings of the job file that was given beside the master's address, as far as it is a job; null: none.
result<std::optional<std::vector<model::setting>>> read_expected_job(const CLI::App& app);

/// The whole order as a job file: every setting that applies to its data, and the options of the run that were given.
result<std::string> print_order(const train_order& order);

}  // namespace troupe::apps
