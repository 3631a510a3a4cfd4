// The library's tensors in messages: the numbers as a column, with the lengths of their dimensions.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "protocol/tensor.hpp"
#include "troupe/tensor.hpp"

namespace troupe::runtime {

std::vector<std::uint64_t> lengths_of(const shape& x);

/// Returns `count` numbers from `first` on as a column, which shares their memory.
msg::tensor column_of(const tensor& x, std::size_t first, std::size_t count);
inline msg::tensor column_of(const tensor& x) { return column_of(x, 0, x.count()); }

/// Returns a column as a tensor of that shape, copied or sharing its memory; null if it is not a valid tensor. To
/// share, requires that no other object has the memory, or that none writes to it.
std::optional<tensor> tensor_of(const msg::tensor& column, const std::vector<std::uint64_t>& lengths, bool copied);

}  // namespace troupe::runtime
