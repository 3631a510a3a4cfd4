// Which recording to read, and how much memory it may take.

#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <utility>
#include <vector>

#include "model/memory.hpp"
#include "trace/recording.hpp"

namespace troupe::cluster {

/// Half of the memory that is available: analyses need some, too.
constexpr std::uint64_t share_of_one_recording = 2;
/// For who still has the last reading while it reads again.
constexpr std::uint64_t share_of_two_readings = 4;

/// Files and folders, of run `run`, with a part of the memory that is available now, `1 / share` of it; some even where
/// next to none is.
inline trace::sources trace_sources(std::vector<std::filesystem::path> paths, std::uint64_t run,
                                    std::uint64_t share = share_of_one_recording) {
  constexpr std::uint64_t least = std::uint64_t{256} << 20;
  return {
      .paths = std::move(paths), .run = run, .memory_bytes_max = std::max(least, model::available_memory() / share)};
}

}  // namespace troupe::cluster
