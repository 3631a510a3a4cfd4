// Tensor parallelism: a network in slices, each of which has a part of some layers' weights and computes with all
// samples. Pairs of linear layers are cut, with nothing but activations between them that take each number by itself
// (Shoeybi et al., 2019). With T slices, slice t has
//
//   of the first  the t-th T-th of its outputs: rows of its weight, and of its bias. Its output need not be joined.
//   of the second the columns of its weight for these, and its whole bias. Its output is the sum over all slices.
//
// So a pair needs one sum forward, of the second's outputs, and one backward, of the gradient of the first's input. All
// other layers are whole on each slice, which computes the same numbers there as the others.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/sequential.hpp"

namespace troupe::model {

struct slice_place {
  std::uint32_t slice = 0;
  std::uint32_t slices = 1;
};

/// How the slices of a network share a layer: each has all of it, or some of its outputs, or takes some of its inputs.
enum class layer_cut : std::uint8_t { none, outputs, inputs };

/// Returns how each layer of a network is cut. A layer belongs to the first pair that it can belong to.
std::vector<layer_cut> cuts_of(const nn::sequential& whole);

/// Returns what each of so many slices has of a network. Requires: `check_slices` accepts it.
nn::sequential slice_of(const nn::sequential& whole, std::uint32_t slices);

/// Checks that a network can be cut into so many slices. Returns the first problem as a message; null if it can.
/// `option`: what asks for the slices; `network`: what the network is given by.
std::optional<std::string> check_slices(const nn::sequential& whole, std::uint32_t slices, const std::string& option,
                                        const std::string& network);

}  // namespace troupe::model
