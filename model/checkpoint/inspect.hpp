// Looking at the checkpoints of a folder: which there are, and whether they are whole.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/checkpoint/tensors.hpp"

namespace troupe::model {

/// How much of a checkpoint is looked at. Each includes those before it.
enum class inspection_depth : std::uint8_t {
  lengths,  ///< the manifest, and that the files are there and as long as it says
  headers,  ///< that the files hold the tensors that it says
  bytes,    ///< every byte, by the files' digests
};

enum class checkpoint_state : std::uint8_t {
  whole,
  torn,        ///< bytes are missing or have changed
  unreadable,  ///< cannot be judged: of another version, or the system does not let us read it
};

/// "whole", "torn", "unreadable".
const char* state_name(checkpoint_state state);

struct damage {
  checkpoint_state state = checkpoint_state::whole;
  /// What is wrong, each naming a file of the checkpoint; several if several files are wrong.
  std::vector<std::string> faults;
};

struct inspection {
  std::uint64_t step = 0;
  /// Nothing if the manifest could not be read.
  std::optional<checkpoint> what;
  damage found;
};

/// Steps of the checkpoints in a folder, newest first. Faults, kind input: there is no such folder, or it cannot be
/// read. A folder without checkpoints is none.
result<std::vector<std::uint64_t>> checkpoint_steps(const std::string& directory);

/// Looks at one checkpoint. nullopt if it is gone: a run that saves here removes old ones. Reads through a buffer of a
/// few MiB; any thread.
std::optional<inspection> inspect_checkpoint(const std::string& directory, std::uint64_t step, inspection_depth depth);

/// The same for the files of a manifest that is known already.
damage find_damage(const checkpoint& saved, inspection_depth depth);

/// The fault of a folder that holds no checkpoint.
fault no_checkpoint_in(const std::string& directory);

}  // namespace troupe::model
