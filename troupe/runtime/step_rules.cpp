#include "troupe/runtime/step_rules.hpp"

#include <fmt/format.h>

#include "troupe/error.hpp"
#include "troupe/runtime/setting_names.hpp"

namespace troupe::runtime {

namespace {

/// Converts the options to settings of a job, whose checks are the same.
std::vector<model::setting> all_settings(const run_options& chosen) {
  return {{"clip-norm", fmt::format("{}", chosen.clip_norm)},
          {"accumulate", std::to_string(chosen.accumulate)},
          {"nan", chosen.nan == nan_policy::skip ? "skip" : "stop"},
          {"consistency", chosen.consistency}};
}

}  // namespace

step_rules step_rules::of(const run_options& chosen, std::span<const std::string> own) {
  std::vector<model::setting> settings = all_settings(chosen);
  settings.emplace_back("data", "tutorial");
  const auto job = model::parse_job(settings);
  if (!job) throw error(error_kind::input, fmt::format("run: {}", with_source_names(job.error().message, own)));
  return {job->clip_norm, job->accumulate, job->nan, job->staleness};
}

std::vector<model::setting> step_rules::settings() const {
  const auto consistency = is_async() ? "async" : staleness > 0 ? fmt::format("ssp:{}", staleness) : "sync";
  const auto mine =
      all_settings({.clip_norm = clip_norm, .accumulate = accumulate, .nan = nan, .consistency = consistency});
  const auto defaults = all_settings({});
  std::vector<model::setting> chosen;
  for (std::size_t i = 0; i < mine.size(); ++i)
    if (mine[i] != defaults[i]) chosen.emplace_back("run-" + mine[i].first, mine[i].second);
  return chosen;
}

}  // namespace troupe::runtime
