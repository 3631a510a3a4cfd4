// Job files: settings as TOML, read into the same texts that a command line has, and printed from them.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/job.hpp"

namespace troupe::model {

/// What a job file says, in the order of the known settings.
struct job_file {
  struct entry {
    setting given;
    std::size_t line = 0;
  };

  std::string path;
  std::vector<entry> entries;
};

/// Reads the job file at `path`, at most 1 MiB, into texts as `parse_job` takes them; `known` are the settings that it
/// may hold. Faults name file and line: what is no TOML, unknown settings (with the nearest known one), and values of
/// another type than the setting's. Whether a text is a valid value is for others to say.
result<job_file> read_job_file(const std::string& path, const std::vector<setting_info>& known);

/// `what`, told as the fault of the job file's line if its message begins with a setting of `file`: `--name value`
/// or `--name:`.
fault located(fault what, const job_file& file);

/// The settings as the text of a job file, one a line in the order of `known`, columns last. Reading it gives the same
/// values. Refuses texts that are not UTF-8, which a job file has to be.
result<std::string> print_job(const std::vector<setting>& settings, const std::vector<setting_info>& known);

/// What a [[columns]] entry may say of a column, in the order in which it is printed.
const std::vector<std::string>& column_keys();

}  // namespace troupe::model
