// One rank's replica of a network that several ranks train, each on its own batches: its parameters
// (`trained_parameters`), and the passes of its batches through the network.
//
//   open                         an optimizer step begins
//     begin_pass  end_pass       a batch: forward, loss, and backward to the input; then its loss is known
//     backward_parameters        the rest of the backward pass
//
// A batch passes through the network as a whole, or in micro-batches one after the other: each has its own activations
// and statistics, and their gradients are added in order.
//
// A stage of a pipeline passes the micro-batches one at a time, as they come:
//
//   open
//     begin_parts  (forward  loss  backward_inputs  backward_parameters)...  end_parts
//
// On a device the calls only enqueue. `end_pass` may read a batch's loss once the host has waited for it, when the rest
// of the backward pass is also enqueued; or a batch later, when the next batch's passes are enqueued: then the host
// never waits for what it has just enqueued.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "actors/trainer/trained_parameters.hpp"
#include "model/hybrid.hpp"
#include "model/loss.hpp"
#include "model/micro_batch.hpp"

namespace troupe::actors {

/// Belongs to one thread. Functions throw `kernels::device_error` if the device fails.
class dense_replica : public trained_parameters {
 public:
  struct options {
    trained_parameters::options parameters = {};
    /// The name of the input's gradient in errors, if there is one.
    const char* grad_input_name = "the gradient of the input";
    /// The most passes that a device captures as graphs, one for each recurring combination of batch size and
    /// addresses.
    std::size_t passes_max = 32;
    /// The micro-batches of a batch (`model::micro_batch_of`).
    std::size_t micro_batches = 1;
    /// Connects to the other slices of the network, on the processor; null: it is whole. Must outlive the replica's
    /// passes.
    nn::slice_sums* slices = nullptr;
  };

  /// A batch of this rank.
  struct pass {
    std::uint64_t step = 0;
    std::size_t size = 0;
    /// [size, in_features] on the device, written in the order of `copies()`. Must stay until the next pass has ended.
    const float* input = nullptr;
    /// The loss's targets, on the host; must stay as long as `input`.
    std::span<const std::int64_t> classes = {};
    std::span<const float> values = {};
    /// The key for the pass's random numbers.
    std::uint64_t key = 0;
    /// The other ranks' passes, for networks that need them.
    nn::rank_means* ranks = nullptr;
    bool wants_grad_input = false;
    bool wants_it_on_host = false;  ///< in addition to the device
    bool is_waited_for = false;     ///< whether `wait_for_pass` will wait for this pass
  };

  /// Requires: what `loss` refers to outlives the replica.
  dense_replica(model::network what, model::loss_function loss, kernels::device& where, const options& chosen);
  ~dense_replica();
  dense_replica(const dense_replica&) = delete;
  dense_replica& operator=(const dense_replica&) = delete;

  /// Starts from these parameters and buffers, as many as the network has, and the optimizer's initial state. If
  /// `buffers` is empty, uses the network's initial ones.
  void start(std::span<const float> parameters, std::span<const float> buffers = {});

  /// The loss of a batch.
  struct batch_loss {
    std::uint64_t step = 0;
    std::size_t size = 0;
    double loss = 0;
  };

  /// Requires: at most one pass has not ended, and it belongs to the step before.
  void begin_pass(const pass& batch);
  /// The event in the order of `copies()` after which the last begun pass has its input, and the pass before may end.
  const kernels::event& begun() const { return *begun_; }
  /// Blocks until the first open pass is over on the device. Requires: its `is_waited_for` is set.
  void wait_for_pass() const { open_.front().over->wait(); }
  /// Ends the first open pass. Requires, on a device: the host has waited for it, for `copies()`, or for `begun` of the
  /// next pass.
  batch_loss end_pass();
  /// The number of passes that have not ended.
  std::size_t open_passes() const { return open_.size(); }
  /// See `trained_parameters::backward`.
  void backward_parameters(bool last, const std::function<void(std::uint32_t bucket)>& full);

  /// The gradient of the current pass's input [size, in_features]; `passed`: the event after which it is written.
  const kernels::mirrored_array<float>& grad_input() const { return grad_input_; }
  const std::shared_ptr<const kernels::event>& passed() const { return passed_; }
  /// Frees a large input gradient before the next pass: of many trainers on one machine, few compute at the same time.
  void free_grad_input() {
    constexpr std::size_t large = std::size_t{1} << 18;
    if (grad_input_.size() >= large) grad_input_.release();
  }

  // -- the batch in parts, on the processor only ------------------------------------------

  /// The memory of a micro-batch's passes.
  struct activations {
    kernels::device_array<float> saved;
    kernels::device_array<float> outputs;  ///< the loss overwrites them with their gradient
    nn::pass_numbers numbers;              ///< of both arrays, and the shape of their input
  };

  /// An active micro-batch. Its activations are not reused while anything refers to them.
  struct part {
    std::size_t number = 0;
    model::micro_batch samples;
    const float* input = nullptr;
    std::shared_ptr<activations> kept;
    std::size_t batch_size = 0;
    std::uint64_t key = 0;
    std::shared_ptr<const float> weights = {};  ///< the weights that it is passed with; null: the current ones
  };

  std::size_t in_features() const { return in_features_; }
  std::size_t out_features() const { return out_features_; }
  /// The multiply-adds of a sample's forward pass in matrix products.
  std::uint64_t multiply_adds() const { return multiply_adds_; }
  /// Joins the other ranks' passes, forward and back to the inputs, without samples.
  void join_idle(nn::rank_means& ranks) const;
  /// Begins a batch whose `input`, `classes` and `values` are not read.
  void begin_parts(const pass& batch);
  /// Passes micro-batch `number` of a batch forward; the batch need not have begun. `input` [its samples, in_features]
  /// stays until it has been passed back. `weights`: a copy of the current weights, if these change before the
  /// micro-batch is passed back.
  part forward(const pass& batch, std::size_t number, const float* input, std::shared_ptr<const float> weights = {});
  /// Returns the part's share of the batch's mean loss, and overwrites its outputs with their gradient. `targets`: the
  /// part's.
  double loss(const part& which, const model::loss_targets& targets);
  /// `grad_input` may be null.
  void backward_inputs(const part& which, const float* grad_outputs, float* grad_input);
  /// `last`: this is the last pass of the optimizer step. See `trained_parameters::backward`.
  void backward_parameters(const part& which, const float* grad_outputs, bool last,
                           const std::function<void(std::uint32_t bucket)>& full);
  void end_parts();
  /// Returns the destination of a part's input gradient; null if the batch does not want it.
  float* grad_input_of(const part& which) {
    return batch_.wants_grad_input ? grad_input_.data() + which.samples.first * in_features_ : nullptr;
  }
  /// Passes `input` [size, in_features] forward without training. `are_last`: these are the outputs of the whole
  /// network, so they are checked for NaN and Inf.
  part evaluate(std::uint64_t step, std::size_t size, const float* input, bool are_last);
  /// Returns a part's outputs [its samples, out_features] for a message, without a copy.
  msg::tensor outputs_of(const part& which) const {
    const std::size_t count = which.samples.size * out_features_;
    return {dtype::f32, which.samples.size, out_features_,
            msg::blob(which.kept, which.kept->outputs.data(), count * sizeof(float))};
  }

  /// Returns the outputs [size, out_features] for `input` [size, in_features] on the device, as host memory, without
  /// training. Waits for the device, and checks the outputs for NaN and Inf.
  std::span<const float> outputs(std::uint64_t step, std::size_t size, const float* input);

 private:
  part part_of(std::size_t number);
  void forward(const part& which, bool training = true);
  std::shared_ptr<activations> free_activations();
  std::size_t parts() const { return model::micro_batches_with_samples(batch_.size, options_.micro_batches); }

  nn::pass pass_of(const part& which, bool training) const;
  const nn::pass_numbers& numbers_of(const part& which) const;
  void run(const model::loss_targets& targets);
  void run(const part& which, const model::loss_targets& targets);

  const model::network network_;
  const std::size_t in_features_;
  const std::size_t out_features_;
  const std::uint64_t multiply_adds_;
  const std::vector<nn::parameter> parameters_;
  const std::vector<nn::parameter> statistics_;  ///< the network's buffers
  const model::loss_function loss_;
  const options options_;

  /// A pass that has not ended.
  struct open_pass {
    std::uint64_t step = 0;
    std::size_t size = 0;
    place end;
    std::unique_ptr<const kernels::event> over;  ///< null: nothing waits for it
  };
  static constexpr std::size_t open_max = 2;
  double* losses_on_host(std::uint64_t step) const { return losses_.data() + step % open_max * options_.micro_batches; }

  std::deque<open_pass> open_;
  kernels::staging_array<double> losses_;  ///< open passes' losses on the host, [step modulo `open_max`, micro-batch]

  // The following belong to the last pass begun.
  pass batch_;
  std::unique_ptr<const kernels::event> begun_;
  /// By micro-batch. For a batch in parts, activations without another reference are free.
  std::vector<std::shared_ptr<activations>> activations_;
  kernels::mirrored_array<float> grad_input_;
  std::shared_ptr<const kernels::event> passed_;
  kernels::uploaded_array<std::int64_t> classes_;
  kernels::uploaded_array<float> values_;
  kernels::device_array<double> loss_values_;  ///< by micro-batch
  std::vector<float> outputs_;
  /// The passes from the input to its gradient, captured as graphs, by batch size and addresses.
  std::map<std::pair<std::size_t, std::vector<const void*>>, std::unique_ptr<kernels::graph>> passes_;
};

}  // namespace troupe::actors
