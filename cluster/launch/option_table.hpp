// The table of a run's options: name, value, default, meaning, and where each is allowed. The job's settings are in the
// model's table (model/job_table.cpp).

#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/job.hpp"

namespace troupe::launch {

/// Subcommands add options by sets.
enum class option_set : std::uint8_t {
  machine,
  batches,
  processes,
  graphs,
  checkpoints,
  restarts,
  outputs,
  trace,
  token,
  certificates,
  certificate_name,
  timeouts,
  insecure,
  process_tls
};

/// Where an option is allowed besides the command line.
enum class option_place : std::uint8_t {
  command_line,        ///< nowhere else
  file,                ///< in a job file
  file_or_environment  ///< in a job file and in a variable: --trace-dir is TROUPE_TRACE_DIR
};

struct option_info {
  const char* name;
  const char* value_name;    ///< null: a switch
  const char* default_text;  ///< for the help; null: none
  const char* meaning;
  option_set set;
  const char* group;  ///< heading in the help
  option_place place = option_place::command_line;
  model::setting_type type = model::setting_type::text;  ///< in a job file
};

/// Returns the table, in the order of a printed job file.
std::span<const option_info> option_table();

/// An option's help text in a program that gives it another meaning.
struct given_options {
  std::string_view name;
  const char* default_text;  ///< null: none
  const char* meaning;
};

/// Adds a set to a subcommand. `default_text` replaces the table's, for a subcommand with another default; `instead`
/// replaces the texts of the options that it names.
void add_options(CLI::App& app, option_set set, const std::optional<std::string>& default_text = std::nullopt,
                 std::span<const given_options> instead = {});

/// Adds the settings of the job.
void add_job_options(CLI::App& app);

/// Returns the options that are allowed in a job file besides the job's settings.
const std::vector<model::setting_info>& run_settings();

/// Returns an option's text from `given` (of command line and job file), else from its variable, if it has one.
std::optional<std::string> option_text(const std::vector<model::setting>& given, std::string_view name);

// -- options outside the table --------------------------------------------------------

/// Adds an option with a text value. `name` has no dashes. `output` has the short name -o in every subcommand.
CLI::Option* add_text_option(CLI::App& app, const std::string& name, const std::string& value_name,
                             const std::string& meaning, const std::string& group);

/// Adds an option without a value.
CLI::Option* add_switch(CLI::App& app, const std::string& name, const std::string& meaning, const std::string& group);

/// Returns the given text of an option; null if the option does not exist or was not given.
std::optional<std::string> given_text(const CLI::App& app, const std::string& name);

}  // namespace troupe::launch
