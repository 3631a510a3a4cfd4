// The rules for a run's optimizer steps, from its options.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/nan_policy.hpp"
#include "model/job.hpp"
#include "troupe/run_options.hpp"

namespace troupe::runtime {

struct step_rules {
  double clip_norm = 0;
  std::uint32_t accumulate = 1;
  nan_policy nan = nan_policy::stop;
  std::uint32_t staleness = 0;  ///< of lookups, in optimizer steps

  /// Throws `error` if an option is out of range, or two cannot be combined, as `troupe train` does. `own`: the
  /// program's own options, for that error (`with_source_names`).
  static step_rules of(const run_options& chosen, std::span<const std::string> own);
  /// Returns those that differ from the defaults: all processes of a run, and one that resumes it, have the same.
  std::vector<model::setting> settings() const;

  bool skips() const { return nan == nan_policy::skip; }
  /// Whether trainers agree on the whole gradient before they apply it.
  bool applies_whole() const { return clip_norm > 0 || skips(); }
  bool is_async() const { return staleness == model::any_staleness; }
};

}  // namespace troupe::runtime
