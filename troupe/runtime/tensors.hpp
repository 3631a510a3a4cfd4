// The library's tensors in messages: a column of the numbers, and beside it the lengths of their dimensions.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "protocol/tensor.hpp"
#include "troupe/tensor.hpp"

namespace troupe::runtime {

std::vector<std::uint64_t> lengths_of(const shape& x);

/// Returns `count` numbers from `first` on as a column, which shares them.
msg::tensor column_of(const tensor& x, std::size_t first, std::size_t count);
inline msg::tensor column_of(const tensor& x) { return column_of(x, 0, x.count()); }

/// Returns a column in that shape, as a copy or sharing its memory; null if it is no tensor of the library. Requires,
/// to share: no other object has the memory, or none writes to it.
std::optional<tensor> tensor_of(const msg::tensor& column, const std::vector<std::uint64_t>& lengths, bool copied);

}  // namespace troupe::runtime
