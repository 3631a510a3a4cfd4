// The optimizer step that trainers order once they know the norm of the whole gradient.

#pragma once

#include <algorithm>
#include <cmath>

#include "actors/server/step_contexts.hpp"

namespace troupe::actors {

/// Clips a gradient by its global norm, as PyTorch's clip_grad_norm_ does; `limit` 0: no clipping. A gradient with a
/// norm of NaN or Inf is not applied.
inline step_order order_for(double norm, double limit) {
  constexpr double no_zero = 1e-6;
  const bool is_finite = std::isfinite(norm);
  const bool clips = is_finite && limit > 0;
  return {.apply = is_finite, .factor = clips ? static_cast<float>(std::min(1.0, limit / (norm + no_zero))) : 1.0F};
}

}  // namespace troupe::actors
