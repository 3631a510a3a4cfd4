// What `troupe train` is told: the settings of a job file, and those of the command line over them.

#pragma once

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

/// Reads job file and command line. Faults are told as the job file's where they come from it.
result<train_order> read_train_order(const CLI::App& app, computing where = computing::here);

/// How a process that joins a run uses its machine and what it records, by the command line and the job file.
struct own_options {
  machine_options machine;
  trace_order traced;
};
result<own_options> read_own_options(const CLI::App& app);

/// The settings of the job file that was given beside the master's address, as far as it is a job; null: none.
result<std::optional<std::vector<model::setting>>> read_expected_job(const CLI::App& app);

/// With --print-job: prints the order as a job file, with every setting that applies to its data and the options of the
/// run that were given. Returns whether it did.
result<bool> print_if_asked(const CLI::App& app, const train_order& order, console& out);

}  // namespace troupe::apps
