// A table's gradient, built by hand.

#pragma once

#include <cstdint>
#include <vector>

#include "kernels/optimizer.hpp"

namespace troupe::kernels::test {

/// Owns the data of a `row_gradients`.
struct gradients {
  std::vector<std::int64_t> rows;
  std::vector<std::uint32_t> starts;
  std::vector<occurrence> occurrences;
  std::vector<const float*> sources;
  std::vector<std::size_t> strides;
  float scale = 1.0F / 3;

  row_gradients view() const { return {rows, starts, occurrences, sources, strides, scale}; }

  void add_row(std::size_t row) {
    rows.push_back(static_cast<std::int64_t>(row));
    starts.push_back(static_cast<std::uint32_t>(occurrences.size()));
  }
  void close() { starts.push_back(static_cast<std::uint32_t>(occurrences.size())); }
};

}  // namespace troupe::kernels::test
