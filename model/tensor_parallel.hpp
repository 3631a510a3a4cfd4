// Tensor parallelism: a network in slices, each of which has a part of some layers' weights and computes with all
// samples. Pairs of linear layers are cut if there are only elementwise activations between them (Shoeybi et al.,
// 2019). With T slices, slice t has
//
//   of the first  the t-th T-th of its outputs: rows of its weight, and of its bias. Its output need not be joined.
//   of the second the columns of its weight for these, and its whole bias. Its output is the sum over all slices.
//
// So a pair needs one sum forward, of the second's outputs, and one backward, of the gradient of the first's input. All
// other layers are whole on each slice, and every slice computes the same numbers there.

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

/// How the slices of a network share a layer: each has all of it, or some of its outputs, or some of its inputs.
enum class layer_cut : std::uint8_t { none, outputs, inputs };

/// Returns how each layer of a network is cut. A layer belongs to the first pair that it can belong to.
std::vector<layer_cut> cuts_of(const nn::sequential& whole);

/// Returns one slice's part of a network cut into `slices` slices. Requires: `check_slices` accepts it.
nn::sequential slice_of(const nn::sequential& whole, std::uint32_t slices);

/// Checks whether a network can be cut into `slices` slices. Returns the first problem as a message, or null. `option`:
/// the option that requests the slices; `network`: the option that gives the network.
std::optional<std::string> check_slices(const nn::sequential& whole, std::uint32_t slices, const std::string& option,
                                        const std::string& network);

}  // namespace troupe::model
