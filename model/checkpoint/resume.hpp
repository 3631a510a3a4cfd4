// Resuming from the newest whole checkpoint of a folder.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/inspect.hpp"
#include "model/data.hpp"
#include "model/job.hpp"

namespace troupe::model {

struct resume_point {
  checkpoint what;
  /// Newer checkpoints that are torn.
  std::vector<std::uint64_t> torn;
  /// Warnings for the user: a line for each of them, and perhaps others.
  std::vector<std::string> warnings;
};

/// Returns the newest whole checkpoint in `directory`; reads every byte of it. Faults, kind input: the folder does not
/// exist, has no checkpoint or no whole one, or the newest is unreadable (resuming from an older one would discard it,
/// though it may be intact). Thread: any.
result<resume_point> newest_whole_checkpoint(const std::string& directory);

/// Returns why the job `what` on `data`, which ends after `total_steps`, cannot resume from `from`: other data, no
/// steps left, or the saved run ended within an optimizer step; else null.
std::optional<std::string> check_resumed(const checkpoint_manifest& from, const job& what, const dataset& data,
                                         std::uint64_t total_steps);

/// Returns the checkpoint's settings with the names of data files from `given`: files may have been moved or packed
/// since. `check_resumed` compares their rows by digest.
std::vector<setting> settings_with_files_of(const checkpoint_manifest& from, std::span<const setting> given);

/// Returns each rank's counts in the current epoch; if the number of ranks has changed since `saved`, the first rank
/// has the sums of all, added in rank order.
std::vector<rank_position> positions_of(const run_position& saved, std::uint32_t trainers);

/// Settings that may change on resume: they do not affect the result of a step, except perhaps its rounding.
extern const std::vector<std::string_view> settings_free_on_resume;

/// Returns the name of the first setting, except those in `free`, in which the job `now` differs from the saved one, or
/// null.
std::optional<std::string> first_differing(std::span<const setting> saved, std::span<const setting> now,
                                           std::span<const std::string_view> free = settings_free_on_resume);

/// Returns the first difference between the job `now` and the saved one, except for the settings `free`: "--seed 2: the
/// checkpoint's run has --seed 1; …", or null.
std::optional<std::string> first_difference(std::span<const setting> saved, std::span<const setting> now,
                                            std::span<const std::string_view> free = settings_free_on_resume);

}  // namespace troupe::model
