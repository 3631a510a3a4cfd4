// Batches of bags on a device.

#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "bench/gpu/measuring.hpp"

namespace troupe::bench {

/// Bags of random rows, one batch per turn.
class lookups {
 public:
  lookups(kernels::stream& on, const sizes& s) : batch_(s.batch) {
    std::mt19937_64 engine(3);
    for (std::size_t i = 0; i < turns * batch_ * bag; ++i)
      indices_.push_back(static_cast<std::int64_t>(engine() % s.rows));
    std::vector<std::int64_t> offsets;
    for (std::size_t b = 0; b < batch_; ++b) offsets.push_back(static_cast<std::int64_t>(b * bag));
    kernels::assign<std::int64_t>(on, indices_, on_device_);
    kernels::assign<std::int64_t>(on, offsets, offsets_);
  }

  std::size_t count() const { return batch_ * bag; }
  std::span<const std::int64_t> indices(std::size_t turn) const {
    return std::span(indices_).subspan(turn * count(), count());
  }
  kernels::bags_view bags(std::size_t turn) const {
    return {{on_device_.data() + turn * count(), count()}, {offsets_.data(), batch_}, {}};
  }

  /// The number of distinct rows in a batch, averaged over all batches.
  double distinct_rows() const {
    std::size_t distinct = 0;
    for (std::size_t turn = 0; turn < turns; ++turn) {
      const auto batch = indices(turn);
      std::vector<std::int64_t> sorted(batch.begin(), batch.end());
      std::ranges::sort(sorted);
      distinct += static_cast<std::size_t>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
    }
    return static_cast<double>(distinct) / turns;
  }

 private:
  std::size_t batch_;
  std::vector<std::int64_t> indices_;
  kernels::device_array<std::int64_t> on_device_;
  kernels::device_array<std::int64_t> offsets_;
};

}  // namespace troupe::bench
