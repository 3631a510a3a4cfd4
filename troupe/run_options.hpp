// Rules for the optimizer steps of a run, with the names and meanings of `troupe train`'s options.

#pragma once

#include <cstdint>
#include <string>

#include "base/nan_policy.hpp"

namespace troupe {

using troupe::nan_policy;

/// See `cluster::run`. A resumed run has the same ones, except `trainers`, which its program sets.
struct run_options {
  std::uint32_t trainers = 1;
  /// The limit of the norm of an optimizer step's gradient, over everything that the optimizer trains, wherever it is:
  /// as PyTorch's clip_grad_norm_. 0: no limit.
  double clip_norm = 0;
  /// Calls of `distributed_optimizer::step` that make up one optimizer step, which applies the mean of their gradients.
  /// A run that ends between two of them makes the last one from fewer.
  std::uint32_t accumulate = 1;
  /// The policy for an optimizer step with a loss or a gradient that is NaN or Inf.
  nan_policy nan = nan_policy::stop;
  /// How old the rows of a lookup may be: "sync"; "ssp:K": at most K optimizer steps; or "async", where a server
  /// applies each trainer's gradients on arrival. Passes of modules that train on servers need "sync".
  std::string consistency = "sync";
};

}  // namespace troupe
