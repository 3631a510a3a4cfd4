// One rank's replica of a network that several ranks train, each on its own batches: all start with the same
// parameters, and every optimizer step applies the mean of their gradients, which is summed elsewhere, bucket by
// bucket.
//
//   open                         an optimizer step begins
//     begin_pass  end_pass       a batch: forward, loss, and backward to the input; then its loss is known
//     backward_parameters        the rest of the backward pass; buckets of the last batch become full on the way
//   share  take                  a bucket is sent; its mean arrives, and is applied
//   mean_squared_norm  apply     with `applies_whole`: means are kept until all have arrived and the caller knows a
//   factor
//
// It computes on its device; on a CUDA device it uses two streams, one of which only copies to and from the host. The
// host waits once a batch, for the loss and the gradient of the input; by then the rest of the backward pass is
// enqueued too (`backward_parameters` before `end_pass`). On the processor a call returns when all its work is done. A
// NaN that only the device sees there is reported one step later (`judge`).

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
    /// Whether gradients are searched for NaN and Inf.
    bool watches = true;
    /// The name of the input's gradient in errors, if there is one.
    const char* grad_input_name = "the gradient of the input";
    bool applies_whole = false;
    /// The most passes that a device captures as graphs, one for each recurring combination of batch size and
    /// addresses.
    std::size_t passes_max = 32;
    /// The precision that the factors of matrix products are rounded to.
    kernels::matmul_precision precision = kernels::matmul_precision::f32;
  };

  /// A batch of this rank.
  struct pass {
    std::uint64_t step = 0;
    std::size_t size = 0;
    /// [size, in_features] on the device, written in the order of `copies()`. Must stay until the next pass has ended.
    const float* input = nullptr;
    /// What the loss compares the outputs with, on the host; must stay as long as `input`.
    std::span<const std::int64_t> classes = {};
    std::span<const float> values = {};
    /// The key that the pass's random numbers are drawn from.
    std::uint64_t key = 0;
    bool wants_grad_input = false;
    bool wants_it_on_host = false;  ///< in addition to the device
  };

  /// Requires: `what`, and what `loss` refers to, outlive the replica.
  dense_replica(const model::network& what, model::loss_function loss, kernels::device& where, const options& chosen);

  kernels::stream& compute() const { return *compute_; }
  kernels::stream& copies() const { return *copies_; }
  bool is_on_host() const { return compute_->device().is_host(); }

  // -- numbers -------------------------------------------------------------------------

  std::size_t parameter_count() const { return weights_.size(); }
  /// Starts from these parameters, as many as the network has, and the optimizer's initial state.
  void start(std::span<const float> parameters);
  /// Returns the parameters, the optimizer's buffers and the network's buffers, each as a column. Waits for the device.
  std::vector<msg::tensor> state();
  msg::tensor weights() { return copy_of(weights_); }
  /// Resumes from a result of `state`. Returns false and changes nothing if it is of another network or optimizer.
  bool restore(const std::vector<msg::tensor>& state);

  // -- a step --------------------------------------------------------------------------

  /// Begins optimizer step `update` (from 1).
  void open(std::uint64_t update);
  void begin_pass(const pass& batch);
  /// Returns the batch's loss; the gradient of the input is ready. Requires, on a device: the host has waited for
  /// `copies()`.
  double end_pass();
  /// `last`: this is the optimizer step's last batch. On the processor `full(bucket)` is called as soon as the bucket
  /// may leave; on a device, all buckets may leave once the loss is known.
  void backward_parameters(bool last, const std::function<void(std::uint32_t bucket)>& full);
  /// Makes the gradient NaN, in place of the loss's gradient: see `gradient_buckets`.
  void poison() { buckets_->poison(!is_on_host()); }

  std::uint32_t buckets() const { return static_cast<std::uint32_t>(buckets_->size()); }
  bool is_reducing(std::uint32_t bucket) const {
    return buckets_->state_of(bucket) == gradient_buckets::state::reducing;
  }
  /// The number of batches summed in the optimizer step's gradient.
  std::uint32_t batches() const { return buckets_->batches(); }
  /// Returns this rank's share of a bucket. Requires: the bucket is full, or no pass will fill it.
  msg::tensor share(std::uint32_t bucket) { return buckets_->share(bucket); }
  /// Takes the mean of a bucket that was shared.
  void take(std::uint32_t bucket, const msg::tensor& mean);
  /// Settles a bucket that gets no mean.
  void give_up(std::uint32_t bucket) { buckets_->settle(bucket); }

  /// Returns the squared norm of all means. Waits for the device.
  double mean_squared_norm();
  /// Applies the means times `factor`.
  void apply(float factor);

  /// The input's gradient [size, in_features] of the pass under way, with the event after which it is written.
  const kernels::mirrored_array<float>& grad_input() const { return grad_input_; }
  const std::shared_ptr<const kernels::event>& passed() const { return passed_; }

  // -- other -----------------------------------------------------------------------------

  /// Returns the outputs [size, out_features] for `input` [size, in_features] on the device, as host memory, without
  /// training. Waits for the device, and searches the outputs for NaN and Inf.
  std::span<const float> outputs(std::uint64_t step, std::size_t size, const float* input);
  /// Searches the parameters for NaN and Inf. Waits for the device.
  void look_at_weights(std::uint64_t step);

  /// Returns the first NaN or Inf known to the host in the steps up to `last_step`.
  std::optional<non_finite_watch::finding> judge(std::uint64_t last_step) { return watch_.judge(last_step); }

  /// Waits for the device. Throws if any mean that it was given is invalid.
  void synchronize();

 private:
  model::network::tensors tensors() const { return {weights_.data(), statistics_.data()}; }
  void run(const model::loss_targets& targets);
  void forget_means();
  void update(model::parameter_range range, const float* grad);
  msg::tensor copy_of(const kernels::device_array<float>& numbers);
  /// The arrays that make up the state, without the absent ones.
  std::vector<kernels::device_array<float>*> parts();

  const model::network& network_;
  const model::loss_function loss_;
  const options options_;

  kernels::device_array<float> weights_;
  kernels::device_array<float> statistics_;  ///< the network's buffers
  kernels::device_array<float> first_state_;
  kernels::device_array<float> second_state_;
  kernels::device_array<float> mean_;  ///< the whole gradient, with `applies_whole`
  std::vector<msg::blob> means_;       ///< means that the stream may still use, since the host last waited for it
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
  /// The passes from the input to its gradient, captured as graphs, by batch size and addresses.
  std::map<std::pair<std::size_t, std::vector<const void*>>, std::unique_ptr<kernels::graph>> passes_;

  non_finite_watch watch_;
  std::optional<gradient_buckets> buckets_;

  // Declared last, so destroyed first, once their work is done. Where both use an array, either the host has waited for
  // the first before it enqueues on the other, or the other waits.
  std::unique_ptr<kernels::stream> copies_;  ///< to the device and back
  std::unique_ptr<kernels::stream> compute_;
};

}  // namespace troupe::actors
