// Inspects the checkpoints of a folder: which ones exist, and whether they are whole.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/checkpoint/tensors.hpp"

namespace troupe::model {

/// How thorough an inspection is. Each depth includes the previous ones.
enum class inspection_depth : std::uint8_t {
  lengths,  ///< the manifest, and the existence and lengths of the files
  headers,  ///< the files' tensors
  bytes,    ///< every byte, by the files' digests
};

enum class checkpoint_state : std::uint8_t {
  whole,
  torn,        ///< bytes are missing or have changed
  unreadable,  ///< its version is unknown, or the system cannot read it
};

/// "whole", "torn", "unreadable".
const char* state_name(checkpoint_state state);

struct damage {
  checkpoint_state state = checkpoint_state::whole;
  /// Error texts, which name files of the checkpoint.
  std::vector<std::string> faults;
};

struct inspection {
  std::uint64_t step = 0;
  /// Null if the manifest could not be read.
  std::optional<checkpoint> what;
  damage found;
};

/// Returns the steps of the checkpoints in a folder, newest first; none is no fault. Faults, kind input: the folder
/// does not exist or cannot be read.
result<std::vector<std::uint64_t>> checkpoint_steps(const std::string& directory);

/// Inspects a checkpoint; null if it has vanished, since a run that saves here removes old ones. Uses a buffer of a few
/// MiB. Thread: any.
std::optional<inspection> inspect_checkpoint(const std::string& directory, std::uint64_t step, inspection_depth depth);

/// The same for the files of a known manifest.
damage find_damage(const checkpoint& saved, inspection_depth depth);

/// Registers manifest and files as inputs of this command (base/input_files.hpp).
void remember_files(const checkpoint& saved);

/// Returns the fault for a folder without checkpoints.
fault no_checkpoint_in(const std::string& directory);

}  // namespace troupe::model
