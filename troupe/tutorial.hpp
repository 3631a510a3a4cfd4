// The data of PyTorch's tutorial "Combining Distributed DataParallel with Distributed RPC Framework".

#pragma once

#include <cstdint>
#include <vector>

namespace troupe {

/// Bags of rows of a table of 100, and one of 8 classes for each bag.
struct tutorial_batch {
  std::vector<std::int64_t> indices = {};
  std::vector<std::int64_t> offsets = {};
  std::vector<std::int64_t> target = {};
};

/// Returns a trainer's 10 batches of an epoch: those of `troupe train --data tutorial` with the same seed.
std::vector<tutorial_batch> tutorial_batches(std::uint64_t seed, std::uint32_t rank, std::uint64_t epoch);

}  // namespace troupe
