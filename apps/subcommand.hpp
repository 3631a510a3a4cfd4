// The interface of the program's subcommands.

#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/compute_devices.hpp"
#include "apps/console.hpp"
#include "base/result.hpp"

namespace troupe::apps {

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
subcommand add_checkpoint(CLI::App& program);
subcommand add_trace(CLI::App& program);

/// Adds an option with a text value. `name` has no dashes. `output` has the short name -o in every subcommand.
CLI::Option* add_text_option(CLI::App& app, const std::string& name, const std::string& value_name,
                             const std::string& meaning, const std::string& group);

/// Adds an option without a value.
CLI::Option* add_switch(CLI::App& app, const std::string& name, const std::string& meaning, const std::string& group);

/// Returns the given text of an option; null if the option does not exist or was not given.
std::optional<std::string> given_text(const CLI::App& app, const std::string& name);

/// Threads and devices of a process.
struct machine_options {
  std::size_t threads = 0;  ///< 0: as many as cores
  actors::compute_devices devices;
};

/// Reads the options of the set `machine`, and finds the requested devices.
result<machine_options> read_machine_options(const std::function<std::optional<std::string>(const char*)>& text_of);

/// Parses the command line, runs the subcommand and returns the program's exit code.
int run_command_line(const std::vector<std::string>& arguments, std::chrono::steady_clock::time_point started);

}  // namespace troupe::apps
