// Reductions in rank order.

#pragma once

#include <cstddef>
#include <span>

#include "troupe/group.hpp"
#include "troupe/tensor.hpp"

namespace troupe::runtime {

/// out = ((in[0] op in[1]) op in[2]) ..., element by element; `count` numbers each. See `reduce_op`. Requires: at least
/// one input; `out` is not an input; no mean of int64. Thread: any.
void reduce_in_rank_order(reduce_op how, dtype type, std::span<const std::byte* const> in, std::size_t count,
                          std::byte* out);

}  // namespace troupe::runtime
