// The interface of the program's subcommands.

#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cluster/launch/console.hpp"
#include "cluster/launch/option_table.hpp"

namespace troupe::apps {

using namespace launch;

/// The program's state for a subcommand.
struct program_context {
  console& out;
  /// The program's start.
  std::chrono::steady_clock::time_point started;
};

/// A subcommand. The command line is parsed to texts only; `run` is called if its syntax is correct, and returns the
/// exit code.
struct subcommand {
  CLI::App* app;
  /// Error text for a further positional argument; empty if the subcommand takes one FILE.
  std::string no_positional;
  result<int> (*run)(const CLI::App& app, const program_context& context);
};

// Each adds its subcommand to `program`.
subcommand add_train(CLI::App& program);
subcommand add_parity(CLI::App& program);
subcommand add_devices(CLI::App& program);
subcommand add_master(CLI::App& program);
subcommand add_join(CLI::App& program);
subcommand add_bench(CLI::App& program);
subcommand add_status(CLI::App& program);
subcommand add_stop(CLI::App& program);
subcommand add_scale(CLI::App& program);
subcommand add_checkpoint(CLI::App& program);
subcommand add_trace(CLI::App& program);

/// Returns the text for --version: the versions of the program, of the libraries in it, and of those that it has
/// loaded.
std::string version_text();
/// The same as a JSON object on one line.
std::string version_event();

/// Parses the command line, runs the subcommand and returns the program's exit code.
int run_command_line(const std::vector<std::string>& arguments, std::chrono::steady_clock::time_point started);

}  // namespace troupe::apps
