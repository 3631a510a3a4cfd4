// How the trainers of a run take their optimizer steps, with the names and meanings of `troupe train`'s options.

#pragma once

#include <cstdint>
#include <string>

#include "base/nan_policy.hpp"

namespace troupe {

using troupe::nan_policy;

/// See `cluster::run`. A run that resumes has the same ones, but for `trainers`, which its program decides.
struct run_options {
  std::uint32_t trainers = 1;
  /// The limit of the norm of an optimizer step's gradient, of everything that the optimizer trains, wherever it is: as
  /// PyTorch's clip_grad_norm_. 0: none.
  double clip_norm = 0;
  /// Calls of `distributed_optimizer::step` that make up one optimizer step; it has the mean of their gradients. A run
  /// that ends between two of them takes the last one with fewer.
  std::uint32_t accumulate = 1;
  /// What happens in an optimizer step with a loss or a gradient that is NaN or Inf.
  nan_policy nan = nan_policy::stop;
  /// How old the rows of a lookup may be: "sync"; "ssp:K": at most K optimizer steps; or "async", where a server
  /// applies each trainer's gradients as they come. Passes of modules on servers that train need "sync".
  std::string consistency = "sync";
};

}  // namespace troupe
