// A network's parameters: one flat buffer, in which layers have stretches and tensors have names.

#pragma once

#include <cstddef>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace troupe::model {

/// One tensor of a layer's or a network's parameters: `first` is where it begins in their buffer.
struct named_parameter {
  std::string name;
  std::vector<std::size_t> shape;
  std::size_t first = 0;

  std::size_t count() const { return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies{}); }

  bool operator==(const named_parameter&) const = default;
};

/// A stretch of the flat parameter buffer.
struct parameter_range {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// Cuts the parameters into buckets for allreduce, in the order in which the backward pass finishes them: last layer
/// first, whole layers, each bucket closed when it has reached its size (`first_bytes` for the first one).
std::vector<parameter_range> plan_buckets(const std::vector<parameter_range>& layers, std::size_t first_bytes,
                                          std::size_t bytes);

}  // namespace troupe::model
