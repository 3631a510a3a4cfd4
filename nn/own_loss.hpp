// Losses that a program adds to those that jobs can name: `add_loss("huber", loss_form::values, huber)` before the
// program reads a job. Every process of a run adds the same ones.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe::nn {

/// What a loss compares a network's outputs with; so are the outputs, the targets and the metrics of a job.
enum class loss_form : std::uint8_t {
  classes,  ///< as cross-entropy: an output for each class, and the number of the true one
  logits,   ///< as bce-logits: one output, whose target is 0 or 1
  values    ///< as mse: as many targets as outputs
};

/// A sample, as a loss sees it.
struct loss_sample {
  /// What the network has computed of the sample. The loss overwrites it with the gradient of its result by it.
  std::span<float> outputs;
  std::int64_t target_class = 0;        ///< loss_form::classes
  std::span<const float> targets = {};  ///< the other forms: one for each output
};

/// Returns a sample's loss. A pure function; thread: any.
using loss_of_sample = std::function<double(const loss_sample& sample)>;

struct own_loss {
  std::string name;
  loss_form form;
  loss_of_sample of_sample;
};

/// Has jobs name a loss, `--loss NAME`: the mean of `of_sample` over a batch. It computes on the processor. Throws
/// `error` if the name is taken, or does not fit. Thread: any; before the first job is read.
void add_loss(const std::string& name, loss_form form, loss_of_sample of_sample);

/// Returns the losses that have been added, in their order; they stay.
std::vector<std::shared_ptr<const own_loss>> added_losses();

}  // namespace troupe::nn
