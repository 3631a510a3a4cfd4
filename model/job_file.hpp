// Job files: settings as TOML, converted from and to the texts of a command line.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/job.hpp"

namespace troupe::model {

/// The content of a job file, in the order of the known settings.
struct job_file {
  struct entry {
    setting given;
    std::size_t line = 0;
    std::vector<std::size_t> lines = {};  ///< for [[layers]]: those of all layers
  };

  std::string path;
  std::vector<entry> entries;
};

/// Reads the job file at `path`, at most 1 MiB, into texts for `parse_job`; `known`: the allowed settings. Faults name
/// file and line: invalid TOML, unknown settings (with the nearest known one), and values of a wrong type. It does not
/// check values.
result<job_file> read_job_file(const std::string& path, const std::vector<setting_info>& known);

/// Returns `what` as a fault of a job file's line, if its message begins with a setting of `file`: `--name value` or
/// `--name:`. The line is a layer's if the message names one, as in `layer 2`.
fault located(fault what, const job_file& file);

/// Returns the settings as the text of a job file, one a line in the order of `known`, columns last. Guarantees:
/// reading it gives the same values. Refuses texts that are not UTF-8, which TOML requires.
result<std::string> print_job(const std::vector<setting>& settings, const std::vector<setting_info>& known);

}  // namespace troupe::model
