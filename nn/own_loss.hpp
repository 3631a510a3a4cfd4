// Losses that a program adds for jobs: `add_loss("huber", loss_form::values, huber)` before the program reads a job.
// Every process of a run adds the same ones.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe::nn {

/// What a loss compares the outputs with. It also determines a job's outputs, targets and metrics.
enum class loss_form : std::uint8_t {
  classes,  ///< as in cross-entropy: an output for each class, and the index of the true one
  logits,   ///< as in bce-logits: one output, whose target is 0 or 1
  values    ///< as in mse: as many targets as outputs
};

/// A sample, for a loss.
struct loss_sample {
  /// The network's outputs for the sample. The loss overwrites them with its gradient with respect to them.
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

/// Adds a loss for jobs, `--loss NAME`: the mean of `of_sample` over a batch, computed on the processor. Throws `error`
/// if the name is in use or invalid. Thread: any; before the first job is read.
void add_loss(const std::string& name, loss_form form, loss_of_sample of_sample);

/// Returns the added losses, in the order of adding; they are never removed.
std::vector<std::shared_ptr<const own_loss>> added_losses();

}  // namespace troupe::nn
