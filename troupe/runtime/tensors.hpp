// The library's tensors and those of messages.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocol/tensor.hpp"
#include "troupe/tensor.hpp"

namespace troupe::runtime {

std::vector<std::uint64_t> lengths_of(const shape& x);

/// Returns a copy as a column.
msg::tensor copy_of(const tensor& x);

/// Returns a copy in that shape. Throws `error` if the type has no counterpart, or the numbers are too few or many.
tensor to_tensor(const msg::tensor& x, const std::vector<std::uint64_t>& lengths);

}  // namespace troupe::runtime
