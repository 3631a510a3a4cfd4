// One rank's replica of a network that several ranks train on batches of their own: all start with the same parameters,
// and every optimizer step applies the mean of their gradients, which is summed elsewhere, bucket by bucket.
//
//   open                         an optimizer step begins
//     begin_pass  end_pass       a batch: forward, loss, and backward to the input; then its loss is known
//     backward_parameters        the rest of the backward pass; buckets of the last batch become full on the way
//   share  take                  a bucket leaves; its mean has come, and is applied
//   mean_squared_norm  apply     with `applies_whole`: means are kept until all are here and the caller knows a factor
//
// It computes on its device: on a CUDA device on two streams, of which one copies from and to the host. The host waits
// once a batch, for the loss and the gradient of the input, by when the rest of the backward pass is in the stream too
// (`backward_parameters` before `end_pass`). On the processor everything is done when a call returns. A NaN that only
// the device sees there is told one step later (`judge`).

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "actors/gradient_buckets.hpp"
#include "actors/non_finite_watch.hpp"
#include "kernels/device_array.hpp"
#include "model/network.hpp"
#include "model/optimizer.hpp"
#include "protocol/tensor.hpp"

namespace troupe::actors {

/// Belongs to one thread. Functions throw `kernels::device_error` if the device fails.
class dense_replica {
 public:
  struct options {
    model::optimizer_spec optimizer = {};
    std::size_t bucket_bytes = std::size_t{25} << 20;
    /// Searches gradients for NaN and Inf.
    bool watches = true;
    /// What the input's gradient is called if there is one.
    const char* grad_input_name = "the gradient of the input";
    bool applies_whole = false;
    /// Of the batch sizes and addresses that come again, those whose pass a device learns.
    std::size_t passes_max = 32;
    /// What the factors of matrix products are rounded to.
    kernels::matmul_precision precision = kernels::matmul_precision::f32;
  };

  /// A batch of this rank.
  struct pass {
    std::uint64_t step = 0;
    std::size_t size = 0;
    /// [size, in_features] on the device, written in the order of `copies()`. Stays until the next pass has ended.
    const float* input = nullptr;
    /// What the loss compares with, on the host; they stay as long.
    std::span<const std::int64_t> classes = {};
    std::span<const float> values = {};
    /// From which random numbers of the pass are drawn.
    std::uint64_t key = 0;
    bool wants_grad_input = false;
    bool wants_it_on_host = false;  ///< beside the device
  };

  /// `what`, and what `loss` refers to, outlive the replica.
  dense_replica(const model::network& what, model::loss_function loss, kernels::device& where, const options& chosen);

  kernels::stream& compute() const { return *compute_; }
  kernels::stream& copies() const { return *copies_; }
  bool is_on_host() const { return compute_->device().is_host(); }

  // -- numbers -------------------------------------------------------------------------

  std::size_t parameter_count() const { return weights_.size(); }
  /// Begins with these parameters, and the optimizer's initial state. As many as the network has.
  void start(std::span<const float> parameters);
  /// The parameters, then the optimizer's buffers, then the network's, each a column; waits for the device.
  std::vector<msg::tensor> state();
  msg::tensor weights() { return copy_of(weights_); }
  /// Goes on from what `state` gave. False, and nothing has changed: that is of another network or optimizer.
  bool restore(const std::vector<msg::tensor>& state);

  // -- a step --------------------------------------------------------------------------

  /// Optimizer step `update` begins (1 for the first).
  void open(std::uint64_t update);
  void begin_pass(const pass& batch);
  /// The batch's loss; the gradient of the input is there. On a device, after the host has waited for `copies()`.
  double end_pass();
  /// `last`: of the optimizer step. `full(bucket)` is called on the processor as soon as the bucket may leave; on a
  /// device, all may when the loss is known.
  void backward_parameters(bool last, const std::function<void(std::uint32_t bucket)>& full);
  /// Instead of the loss's gradient, NaN: see `gradient_buckets`.
  void poison() { buckets_->poison(!is_on_host()); }

  std::uint32_t buckets() const { return static_cast<std::uint32_t>(buckets_->size()); }
  bool is_reducing(std::uint32_t bucket) const {
    return buckets_->state_of(bucket) == gradient_buckets::state::reducing;
  }
  /// Batches that are summed in the optimizer step's gradient.
  std::uint32_t batches() const { return buckets_->batches(); }
  /// This rank's share of a bucket, when it is full or no pass will fill it.
  msg::tensor share(std::uint32_t bucket) { return buckets_->share(bucket); }
  /// The mean of a bucket that was shared.
  void take(std::uint32_t bucket, const msg::tensor& mean);
  /// There will be no mean of it.
  void give_up(std::uint32_t bucket) { buckets_->settle(bucket); }

  /// Of all means; waits for the device.
  double mean_squared_norm();
  /// Applies the means times `factor`.
  void apply(float factor);

  /// With the input's gradient [size, in_features] of the pass under way: the event after which it is written.
  const kernels::mirrored_array<float>& grad_input() const { return grad_input_; }
  const std::shared_ptr<const kernels::event>& passed() const { return passed_; }

  // -- besides -------------------------------------------------------------------------

  /// The outputs [size, out_features] for `input` [size, in_features] on the device, for the host; the batch is not
  /// trained on. Waits for the device, and looks for NaN and Inf.
  std::span<const float> outputs(std::uint64_t step, std::size_t size, const float* input);
  /// Looks for NaN and Inf in the parameters; waits for the device.
  void look_at_weights(std::uint64_t step);

  /// The first NaN or Inf, of those that the host knows of, in the steps up to `last_step`.
  std::optional<non_finite_watch::finding> judge(std::uint64_t last_step) { return watch_.judge(last_step); }

  /// Waits for the device. Throws if means that it was given are not what they should be.
  void synchronize();

 private:
  model::network::tensors tensors() const { return {weights_.data(), statistics_.data()}; }
  void run(const model::loss_targets& targets);
  void forget_means();
  void update(model::parameter_range range, const float* grad);
  msg::tensor copy_of(const kernels::device_array<float>& numbers);
  /// Of all that make up the state, those that there are.
  std::vector<kernels::device_array<float>*> parts();

  const model::network& network_;
  const model::loss_function loss_;
  const options options_;

  kernels::device_array<float> weights_;
  kernels::device_array<float> statistics_;  ///< the network's buffers
  kernels::device_array<float> first_state_;
  kernels::device_array<float> second_state_;
  kernels::device_array<float> mean_;  ///< the whole gradient, with `applies_whole`
  std::vector<msg::blob> means_;       ///< that the stream has been asked to use since it was last waited for
  kernels::update_constants constants_;

  // Of the pass under way.
  pass batch_;
  std::unique_ptr<model::network::activations> activations_;
  kernels::mirrored_array<float> grad_input_;
  std::shared_ptr<const kernels::event> passed_;
  kernels::uploaded_array<std::int64_t> classes_;
  kernels::uploaded_array<float> values_;
  kernels::mirrored_array<double> scalar_;  ///< the loss, or a norm
  std::vector<float> outputs_;
  /// The pass from the input to its gradient, captured for the batch sizes and addresses that come again.
  std::map<std::pair<std::size_t, std::vector<const void*>>, std::unique_ptr<kernels::graph>> passes_;

  non_finite_watch watch_;
  std::optional<gradient_buckets> buckets_;

  // They go first, when they have passed, before all that they use. Where both use an array, the host has waited for
  // the one before it asks the other for anything, or the other waits.
  std::unique_ptr<kernels::stream> copies_;  ///< to the device and back
  std::unique_ptr<kernels::stream> compute_;
};

}  // namespace troupe::actors
