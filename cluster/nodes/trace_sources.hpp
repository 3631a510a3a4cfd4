// Which recording to read, and how much memory it may use.

#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "model/memory.hpp"
#include "trace/record/recording.hpp"

namespace troupe::nodes {

/// Half of the available memory: analyses also need some.
constexpr std::uint64_t share_of_one_recording = 2;
/// A quarter, for callers that keep the last reading while they read again.
constexpr std::uint64_t share_of_two_readings = 4;

/// Returns the sources of run `run` in `paths`, with `1 / share` of the memory that is available now, at least 256 MiB.
inline trace::sources trace_sources(std::vector<std::filesystem::path> paths, std::uint64_t run,
                                    std::uint64_t share = share_of_one_recording) {
  constexpr std::uint64_t least = std::uint64_t{256} << 20;
  return {
      .paths = std::move(paths), .run = run, .memory_bytes_max = std::max(least, model::available_memory() / share)};
}

}  // namespace troupe::nodes
