// Maps the numbers of a network's parts, which are on several trainers, to those of the whole network.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nn/module.hpp"

namespace troupe::model {

/// The position of a part's tensor in the whole: `rows` runs of `cols` neighbours.
struct tensor_place {
  std::size_t first = 0;
  std::size_t rows = 1;
  std::size_t cols = 0;
  std::size_t stride = 0;  ///< from one run to the next
  bool is_cut = false;     ///< the other slices have other numbers of the tensor

  std::size_t count() const { return rows * cols; }
};

struct part_tensors {
  std::vector<tensor_place> parameters;  ///< in the order of the part's flat buffer, without gaps
  nn::parameter_range buffers;           ///< the whole network's
};

struct network_parts {
  std::size_t parameters = 0;  ///< of the whole network
  std::size_t buffers = 0;
  std::vector<part_tensors> parts;
};

/// Returns the positions of a slice's tensors: a tensor that is smaller than the whole one is cut along its first or
/// second dimension. `whole`: the whole network's parameters, with their positions.
std::vector<tensor_place> places_of_slice(std::span<const nn::parameter> whole, std::span<const nn::parameter> mine,
                                          std::uint32_t slice);

/// Returns the ranges of a part's parameters whose numbers no earlier slice has; for the first slice, all.
std::vector<nn::parameter_range> counted_once(const part_tensors& of, std::uint32_t slice);

/// Copies a part's parameters out of the whole.
std::vector<float> part_of(std::span<const float> whole, const part_tensors& part);
/// Copies a part's parameters into the whole.
void put_part(std::span<const float> mine, const part_tensors& part, std::span<float> whole);

}  // namespace troupe::model
