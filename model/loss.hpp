// The losses of jobs.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "kernels/device.hpp"
#include "model/job.hpp"

namespace troupe::model {

/// Samples' targets in the device's memory. The member that the loss does not use may be null.
struct loss_targets {
  const std::int64_t* classes = nullptr;  ///< [size]
  const float* values = nullptr;          ///< [size, outputs]
};

/// Computes into `loss` the share of samples with these `outputs` [size, out_features] in the mean loss of their batch,
/// and overwrites the outputs with their gradient.
using loss_function = std::function<void(kernels::stream& on, kernels::batch_part samples, const loss_targets& targets,
                                         float* outputs, double* loss)>;

/// Returns the mean loss over samples with `outputs` outputs (targets: classes for cross-entropy, else values). A loss
/// added by a program computes on the processor only.
loss_function loss_of(const loss_choice& chosen, std::size_t outputs);

}  // namespace troupe::model
