// Ids: whole numbers in float32 that index rows of a table.

#pragma once

#include <cstddef>
#include <string>

#include "nn/tensor.hpp"

namespace troupe::nn {

class module;

/// The ids that a module accepts: numbers that, times `scale`, are whole and in [0, rows).
struct id_range {
  std::size_t rows = 0;
  float scale = 1;

  bool has(float number) const;
  /// Returns "a whole number between 0 and 15, an id", with the scale if there is one.
  std::string text() const;
};

/// Throws `error` if the module needs ids: computed numbers cannot be ids.
void check_takes_computed(const module& of);

/// Throws `error`, with row and column, unless the module accepts the numbers of `input` (`module::ids`). Requires:
/// they are in host memory.
void check_ids(const module& of, const tensor_view& input);

}  // namespace troupe::nn
