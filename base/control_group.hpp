// The control groups of this process, which may have less memory for it than the machine has.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A control group that may limit memory, as a folder of files. A process has one in the tree of each version, and
/// those above it limit it too.
struct control_group {
  int version = 2;
  std::string folder;

  bool operator==(const control_group&) const = default;
};

/// Returns the groups of this process with a controller of memory that can be seen, its own before those above it.
/// `root`: before all paths, for tests.
std::vector<control_group> memory_groups(const std::string& root = {});

/// Returns the bytes that the limits of `groups` leave to this process, the least of all; the largest number without a
/// limit. What the kernel can reclaim, cached files, counts as free, as in MemAvailable.
std::uint64_t memory_left(const std::vector<control_group>& groups);

/// Returns how many processes of this process's own group have been killed for want of memory; null: its group does not
/// tell.
std::optional<std::uint64_t> killed_in(const std::vector<control_group>& groups);

}  // namespace troupe
