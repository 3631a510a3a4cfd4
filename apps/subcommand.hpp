// What every subcommand of the program is made of.

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

/// What a subcommand needs from the program.
struct program_context {
  console& out;
  /// When the program started.
  std::chrono::steady_clock::time_point started;
};

/// One subcommand: its options, and what it does with them. The command line reads values as text only; `run` is
/// called when the syntax is right, and gives the exit code.
struct subcommand {
  CLI::App* app = nullptr;
  /// Why a further positional argument is refused; empty if the subcommand takes one FILE.
  std::string no_positional;
  std::function<result<int>()> run;
};

// One subcommand a file; each declares itself as part of `program`.
subcommand add_train(CLI::App& program, const program_context& context);
subcommand add_parity(CLI::App& program, const program_context& context);
subcommand add_devices(CLI::App& program, const program_context& context);
subcommand add_master(CLI::App& program, const program_context& context);
subcommand add_join(CLI::App& program, const program_context& context);
subcommand add_bench(CLI::App& program, const program_context& context);
subcommand add_status(CLI::App& program, const program_context& context);
subcommand add_stop(CLI::App& program, const program_context& context);
subcommand add_checkpoint(CLI::App& program, const program_context& context);
subcommand add_trace(CLI::App& program, const program_context& context);

/// An option with a value, kept as text. `name` without dashes. `output` has the short name -o in every subcommand.
CLI::Option* add_text_option(CLI::App& app, const std::string& name, const std::string& value_name,
                             const std::string& meaning, const std::string& group);

/// An option without a value.
CLI::Option* add_switch(CLI::App& app, const std::string& name, const std::string& meaning, const std::string& group);

/// The text given for an option, if there is such an option and it was given.
std::optional<std::string> given_text(const CLI::App& app, const std::string& name);

/// What a process computes with.
struct machine_options {
  std::size_t threads = 0;  ///< 0: as many as cores
  actors::compute_devices devices;
};

/// Reads the options of the set `machine` by their names, and looks at the machine for the devices wanted.
result<machine_options> read_machine_options(const std::function<std::optional<std::string>(const char*)>& text_of);

/// Reads the whole command line, runs what it names and returns the program's exit code.
int run_command_line(const std::vector<std::string>& arguments, std::chrono::steady_clock::time_point started);

}  // namespace troupe::apps
