// The table of a job's settings, for job.cpp, the checks and the manifests of checkpoints; other code uses
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

/// One line of the table. Immutable.
struct job_setting : setting_info {
  /// The default for each data set, in the order of `data_kind`. no_default: optional without a default;
  /// null: the setting does not apply to the data set.
  std::array<const char*, data_kinds> defaults;

  /// Parses `text` into the job; returns an error text if it is wrong.
  std::function<std::optional<std::string>(job&, std::string_view text)> read;

  /// Returns the text from which `read` makes the same value; null if the job has no value.
  std::function<std::optional<std::string>(const job&)> write;
};

constexpr const char* no_default = "";

/// Limit of trainers, and of servers.
constexpr std::uint64_t actors_max = 1024;

constexpr double learning_rate_max = 1e6;

/// Returns all settings in the order of the help; the first one is `data`.
const std::vector<job_setting>& job_table();

/// Returns the names of all kinds except `own`, in their order.
const std::array<std::string, data_kinds - 1>& data_names();

/// Returns the text of the setting `data`. Refuses a text that names no data set.
result<std::string> read_data(std::string_view text);

/// Returns layer widths as a setting's text: `none`, or separated by commas.
std::string widths_text(const std::vector<std::size_t>& widths);

/// Fills in defaults that depend on several settings.
void complete_job(job& what, data_kind kind);

/// Checks combinations of settings; returns the first problem as a message, or null.
std::optional<std::string> check_job(const job& what, data_kind kind);

/// Returns the current spelling of a setting's text: f32 and f16 for the former fp32 and fp16; any other text
/// unchanged.
inline std::string current_spelling(const std::string& name, const std::string& text) {
  const bool is_number_type = name == "row-dtype" || name == "wire-dtype" || name == "matmul-precision";
  if (is_number_type && text == "fp32") return "f32";
  if (is_number_type && text == "fp16") return "f16";
  return text;
}

}  // namespace troupe::model
