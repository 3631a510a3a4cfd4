// The options of a run in one table: name, value, default, meaning, and where each may stand. The settings of the job
// itself come from the model's table (model/job_table.cpp) and stand in front.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/subcommand.hpp"
#include "model/job.hpp"

namespace troupe::apps {

/// Subcommands take options by sets.
enum class option_set : std::uint8_t {
  machine,
  processes,
  checkpoints,
  outputs,
  trace,
  token,
  certificates,
  certificate_name,
  timeouts,
  insecure,
  process_tls
};

/// Where else than on a command line an option may stand.
enum class option_place : std::uint8_t {
  command_line,        ///< nowhere else
  file,                ///< in a job file
  file_or_environment  ///< there, and in a variable: --trace-dir is TROUPE_TRACE_DIR
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

/// All but the job's settings, in the order in which a job file is printed.
std::span<const option_info> option_table();

/// Adds a set to a subcommand. `default_text` takes the place of the table's, where a subcommand has a default of its
/// own.
void add_options(CLI::App& app, option_set set, const std::optional<std::string>& default_text = std::nullopt);

/// Adds the settings of the job.
void add_job_options(CLI::App& app);

/// What a job file may hold beside the job's settings.
const std::vector<model::setting_info>& run_settings();

/// The text of an option: from `given`, which are those of command line and file, else from its variable, if it has
/// one.
std::optional<std::string> option_text(const std::vector<model::setting>& given, std::string_view name);

}  // namespace troupe::apps
