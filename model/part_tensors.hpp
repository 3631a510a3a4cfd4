// Where the numbers of a network's parts, which are on several trainers, are among those of the whole network.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nn/module.hpp"

namespace troupe::model {

/// The place of a part's tensor: `rows` runs of `cols` neighbours.
struct tensor_place {
  std::size_t first = 0;
  std::size_t rows = 1;
  std::size_t cols = 0;
  std::size_t stride = 0;  ///< from one run to the next
  bool is_cut = false;     ///< the other slices have other numbers of it

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

/// Returns the places of a slice's tensors: those that are not as large as the whole one are cut by their first or
/// their second dimension. `whole`: with their places.
std::vector<tensor_place> places_of_slice(std::span<const nn::parameter> whole, std::span<const nn::parameter> mine,
                                          std::uint32_t slice);

/// Returns the ranges of a part's parameters whose numbers no earlier slice has: of the first slice, all.
std::vector<nn::parameter_range> counted_once(const part_tensors& of, std::uint32_t slice);

/// Returns a part's parameters.
std::vector<float> part_of(std::span<const float> whole, const part_tensors& part);
/// Puts a part's parameters to their places.
void put_part(std::span<const float> mine, const part_tensors& part, std::span<float> whole);

}  // namespace troupe::model
