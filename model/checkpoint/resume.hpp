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
  /// A line for the user about each of them, and perhaps others.
  std::vector<std::string> warnings;
};

/// Returns the newest whole checkpoint in `directory`; reads every byte of it. Faults, kind input: the folder does not
/// exist, has no checkpoint, none is whole, or the newest is unreadable (an older one would discard a perhaps intact
/// one). Thread: any.
result<resume_point> newest_whole_checkpoint(const std::string& directory);

/// Returns why the job `what` on `data`, which ends after `total_steps`, cannot resume from `from`: other data, no
/// steps left, or the saved run ended within an optimizer step; else null.
std::optional<std::string> check_resumed(const checkpoint_manifest& from, const job& what, const dataset& data,
                                         std::uint64_t total_steps);

/// Returns the settings of the checkpoint with the names of data files that `given` has: files may have been moved or
/// packed since, and whether their rows are the same is for `check_resumed` to say, by their digest.
std::vector<setting> settings_with_files_of(const checkpoint_manifest& from, std::span<const setting> given);

/// Returns what each rank has counted in the epoch under way; if their number has changed since `saved`, the first one
/// has the counts of all, added in rank order.
std::vector<rank_position> positions_of(const run_position& saved, std::uint32_t trainers);

/// Settings that may change on resume: they do not change what a step computes, except perhaps its rounding.
extern const std::vector<std::string_view> settings_free_on_resume;

/// Returns the name of the first setting, without those of `free`, in which the job `now` differs from the saved one;
/// null if no other one differs.
std::optional<std::string> first_differing(std::span<const setting> saved, std::span<const setting> now,
                                           std::span<const std::string_view> free = settings_free_on_resume);

/// Returns the first difference between the job `now` and the saved one, without the settings `free`: "--seed 2: the
/// checkpoint's run has --seed 1; …"; null if there is none.
std::optional<std::string> first_difference(std::span<const setting> saved, std::span<const setting> now,
                                            std::span<const std::string_view> free = settings_free_on_resume);

}  // namespace troupe::model
