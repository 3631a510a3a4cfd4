// Where a run goes on from: the newest whole checkpoint of a folder.

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
  /// For the user: a line for each of them.
  std::vector<std::string> warnings;
};

/// The newest checkpoint in `directory` that is whole to the last byte; all of it is read. Faults, kind input: there is
/// no such folder, it holds no checkpoint, none is whole, or the newest cannot be judged (then falling back would throw
/// away what may be sound). Any thread.
result<resume_point> newest_whole_checkpoint(const std::string& directory);

/// Why the job `what` on `data`, which ends after `total_steps`, cannot go on from the checkpoint `from`, as a message:
/// its data are others, it is over, or the saved run ended in the middle of an optimizer step.
std::optional<std::string> check_resumed(const checkpoint_manifest& from, const job& what, const dataset& data,
                                         std::uint64_t total_steps);

/// Settings that a run may change when it goes on from a checkpoint: they do not change what a step computes, but
/// perhaps how it is rounded.
extern const std::vector<std::string_view> settings_free_on_resume;

/// How the job `now` differs from the saved one, if it does: "--seed 2: the checkpoint's run has --seed 1; …". Looks at
/// the settings in their order, leaving out `free`; the first difference is told.
std::optional<std::string> first_difference(std::span<const setting> saved, std::span<const setting> now,
                                            std::span<const std::string_view> free = settings_free_on_resume);

}  // namespace troupe::model
