// The control groups of this process, which may limit its memory below the machine's.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A control group that may limit memory, as a folder of files. A process has one in the tree of each version; the
/// groups above also limit it.
struct control_group {
  int version = 2;
  std::string folder;

  bool operator==(const control_group&) const = default;
};

/// Returns this process's visible groups with a memory controller, its own before those above it. `root`: a prefix for
/// all paths, for tests.
std::vector<control_group> memory_groups(const std::string& root = {});

/// Returns how many bytes `groups` leave to this process: the least of all limits; the largest number without a limit.
/// Memory that the kernel can reclaim, such as cached files, counts as free, as in MemAvailable.
std::uint64_t memory_left(const std::vector<control_group>& groups);

/// Returns how many processes of this process's own group have been killed for lack of memory; null if the group does
/// not report it.
std::optional<std::uint64_t> killed_in(const std::vector<control_group>& groups);

}  // namespace troupe
