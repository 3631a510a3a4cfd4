// A network's parameters: one flat buffer with a range for each layer, and named tensors.

#pragma once

#include <cstddef>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace troupe::model {

/// A tensor of a layer's or network's parameters; `first` is its offset in their buffer.
struct named_parameter {
  std::string name;
  std::vector<std::size_t> shape;
  std::size_t first = 0;

  std::size_t count() const { return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies{}); }

  bool operator==(const named_parameter&) const = default;
};

/// A range of the flat parameter buffer.
struct parameter_range {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Cuts the parameters into buckets for allreduce, in the backward pass's order: whole layers, last one first. A bucket
/// ends when it has reached its size (`first_bytes` for the first one).
std::vector<parameter_range> plan_buckets(const std::vector<parameter_range>& layers, std::size_t first_bytes,
                                          std::size_t bytes);

}  // namespace troupe::model
