// The policy for an optimizer step in which a trainer has found NaN or Inf.

#pragma once

#include <cstdint>

namespace troupe {

/// stop: the run ends with an error. skip: all trainers skip the optimizer step.
enum class nan_policy : std::uint8_t { stop, skip };

}  // namespace troupe
