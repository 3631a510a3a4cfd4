// Numbers of a tensor one by one, of whatever type they are.

#pragma once

#include <cstddef>

#include "protocol/tensor.hpp"

namespace troupe::analysis {

/// Number `i` of those that lie at `numbers`, which need not be aligned.
double number_at(msg::dtype type, const void* numbers, std::size_t i);

}  // namespace troupe::analysis
