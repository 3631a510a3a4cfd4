// The table of a job's settings, for job.cpp, the checks and the manifests of checkpoints; everybody else goes through
// model/job.hpp.

#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/datasets.hpp"
#include "model/job.hpp"

namespace troupe::model {

/// One line of the table. Thread-safe: nothing changes after it was built.
struct job_setting {
  std::string name;
  std::string value_name;
  std::string meaning;
  std::string group;  ///< heading in the help

  /// Its default for each data set, in the order of `data_kind`: no_default where it may be left out without one,
  /// null where the data set has no such setting.
  std::array<const char*, data_kinds> defaults;

  /// Puts what `text` says into the job, or returns what is wrong with it.
  std::function<std::optional<std::string>(job&, std::string_view text)> read;

  /// The text from which `read` makes the same value; nullopt if the job does without.
  std::function<std::optional<std::string>(const job&)> write;

  setting_type type = setting_type::text;
};

constexpr const char* no_default = "";

/// Most trainers, and most servers.
constexpr std::uint64_t actors_max = 1024;

constexpr double learning_rate_max = 1e6;

/// All settings in the order of the help; the first one is `data`.
const std::vector<job_setting>& job_table();

/// The data sets' names in the order of `data_kind`.
const std::array<std::string, data_kinds>& data_names();

/// Layer widths as a setting's text: `none`, or with commas between them.
std::string widths_text(const std::vector<std::size_t>& widths);

/// Fills in the defaults that follow from several settings.
void complete_job(job& what, data_kind kind);

/// What no single setting can tell: values that do not go together. Returns the first such pair, as a message.
std::optional<std::string> check_job(const job& what, data_kind kind);

}  // namespace troupe::model
