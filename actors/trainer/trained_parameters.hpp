// A network's parameters, trained by several ranks together: one rank's weights, the optimizer's state, and the
// gradient in buckets. All ranks start with the same parameters, and every optimizer step applies the mean of their
// gradients, which is summed elsewhere, bucket by bucket.
//
//   open                         an optimizer step begins
//     backward                   a batch's gradient; buckets of the last batch become full on the way
//   share  take                  a bucket is sent; its mean arrives, and is applied
//   mean_squared_norm  apply     with `applies_whole`: means are kept until all have arrived and the caller knows a
//   factor, or leaves the step out (`leave_out`)
//
// A network's buffers, such as running means, are not trained. Rank 0's buffers are sent as one more bucket, so that
// all ranks have the same after each optimizer step.
//
// The numbers are in the memory of a device. A CUDA device has two streams, one of which only copies to and from the
// host. On the processor a call returns when all its work is done. A NaN that only the device sees is reported later,
// with its step (`check_finite`).

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actors/collective/gradient_buckets.hpp"
#include "actors/trainer/non_finite_watch.hpp"
#include "base/function_ref.hpp"
#include "kernels/device_array.hpp"
#include "kernels/stream_timer.hpp"
#include "model/exact_sum.hpp"
#include "model/optimizer.hpp"
#include "nn/module.hpp"
#include "protocol/tensor.hpp"
#include "trace/record/record.hpp"

namespace troupe::actors {

/// Belongs to one thread. Functions throw `kernels::device_error` if the device fails.
class trained_parameters {
 public:
  struct options {
    model::optimizer_spec optimizer = {};
    std::size_t bucket_bytes = std::size_t{25} << 20;
    /// Whether gradients are searched for NaN and Inf.
    bool watches = true;
    bool applies_whole = false;
    /// The precision to which the factors of matrix products are rounded.
    kernels::matmul_precision precision = kernels::matmul_precision::f32;
    /// The names of the parameters, for errors, in the order of the flat buffer; empty: no names.
    std::vector<nn::parameter> names = {};
    /// The ranges of the gradient that count for `mean_squared_norm`; null: all layers.
    std::optional<std::vector<nn::parameter_range>> normed = {};
  };

  /// `ranges`: the layers', in the order of the flat buffer, without gaps.
  trained_parameters(const std::vector<nn::parameter_range>& ranges, kernels::device& where, const options& chosen);

  kernels::stream& compute() const { return *compute_; }
  kernels::stream& copies() const { return *copies_; }
  bool is_on_host() const { return compute_->device().is_host(); }

  // -- numbers -------------------------------------------------------------------------

  std::size_t parameter_count() const { return weights_.size(); }
  /// Starts from these parameters and the optimizer's initial state. `buffers`: the network's, which are not trained.
  void start(std::span<const float> parameters, std::span<const float> buffers);
  /// Continues with these numbers and the same optimizer state. Requires: `start` before, with the same counts.
  void replace(std::span<const float> parameters, std::span<const float> buffers);
  /// Continues with another optimizer and its initial state. Requires: `start` before.
  void set_optimizer(const model::optimizer_spec& chosen);
  /// The numbers are on the device.
  const float* weights_data() const { return weights_.data(); }
  float* buffers_data() const { return buffers_.now.data(); }
  /// Returns a copy of the weights on the device, which later optimizer steps do not change; null: the network has no
  /// weights.
  std::shared_ptr<const float> copy_of_weights() const;
  /// Returns the parameters, the optimizer's buffers and the network's buffers, each as a column. Waits for the device.
  std::vector<msg::tensor> state();
  msg::tensor weights() { return copy_of(weights_); }
  /// Returns the network's buffers.
  msg::tensor buffers() { return copy_of(buffers_.now); }
  /// Resumes from a result of `state`. Returns false and changes nothing if it belongs to another network or optimizer.
  bool restore(const std::vector<msg::tensor>& state);

  // -- a step --------------------------------------------------------------------------

  /// Saves the network's buffers for `leave_out`, unless they are saved. With `applies_whole`, `open` does so. If
  /// passes come before `open`, call this before the first pass of an optimizer step.
  void keep_buffers();
  /// Begins optimizer step `update` (from 1).
  void open(std::uint64_t update);

  /// Adds the gradient of a batch, or of a further micro-batch of the same one: `pass` writes each layer's gradient,
  /// from the end of the buffer, to the places that it gets. `last`: this is the optimizer step's last pass. On the
  /// processor `full(bucket)` is called as soon as the bucket may be sent; on a device, all buckets may be sent once
  /// the host has waited for the stream.
  void backward(std::uint64_t step, bool last, function_ref<void(nn::gradient_places&)> pass,
                function_ref<void(std::uint32_t bucket)> full, bool is_of_same_batch = false);
  /// Makes the gradient NaN, replacing the loss's gradient: see `gradient_buckets`.
  void poison() { buckets_->poison(!is_on_host()); }

  std::uint32_t gradient_bucket_count() const { return static_cast<std::uint32_t>(buckets_->size()); }
  /// The buckets of the gradient, then one of the network's buffers, if it has any.
  std::uint32_t buckets() const { return gradient_bucket_count() + (buffers_.now.size() > 0 ? 1 : 0); }
  nn::parameter_range range(std::uint32_t bucket) const { return buckets_->range(bucket); }
  bool is_reducing(std::uint32_t bucket) const {
    if (is_of_buffers(bucket)) return buffers_.are_shared;
    return buckets_->state_of(bucket) == gradient_buckets::state::reducing;
  }
  /// The number of batches summed in the optimizer step's gradient.
  std::uint32_t batches() const { return buckets_->batches(); }
  /// The weight of `rank`'s share in the mean of a bucket: its batches; for buffers, only rank 0's counts.
  std::uint32_t weight(std::uint32_t bucket, std::uint32_t rank) const {
    if (is_of_buffers(bucket)) return rank == 0 ? 1 : 0;
    return batches();
  }
  /// Returns this rank's share of a bucket; zeros if it has no weight. Requires: the bucket is full, or no pass will
  /// fill it.
  msg::tensor share(std::uint32_t bucket, std::uint32_t rank);
  /// Applies or keeps the mean of a shared bucket.
  void take(std::uint32_t bucket, const msg::tensor& mean);
  /// `as_share` returns host numbers as a share of a bucket that is not this object's; `on_host`, the numbers of a
  /// mean. Both wait for the device.
  msg::tensor as_share(std::span<const float> numbers);
  /// Returns host numbers as a mean for `take`, even while their share is in use.
  msg::tensor as_mean(std::span<const float> numbers);
  std::vector<float> on_host(const msg::tensor& mean);
  /// Settles a bucket that gets no mean.
  void give_up(std::uint32_t bucket);

  /// Returns the squared norm of the means of the `normed` ranges, as an exact sum. Waits for the device.
  model::exact_sum mean_squared_norm();
  /// Applies the means times `factor`.
  void apply(float factor);
  /// Leaves the optimizer step out, and restores the saved buffers of the network.
  void leave_out();
  /// The optimizer step is applied: drops the saved buffers.
  void forget_buffers() { buffers_.are_kept = false; }

  // -- other -----------------------------------------------------------------------------

  /// Searches the parameters for NaN and Inf. Waits for the device.
  void look_at_weights(std::uint64_t step);

  /// Returns the first NaN or Inf known to the host in the steps up to `last_step`.
  std::optional<non_finite_watch::finding> check_finite(std::uint64_t last_step);
  /// Returns the first NaN or Inf among the weights. Waits for the device.
  std::optional<non_finite_watch::finding> find_in_weights();

  /// Describes a loss that is NaN or Inf. On the processor it names the first weight that is NaN or Inf, else the
  /// largest; on a device the weights may already be those of the next step.
  std::string loss_text(double loss);

  /// Waits for the device. Throws if any received mean is invalid. Requires: the host has waited for all places of
  /// `follow`.
  void synchronize();

  /// From now on times the device's work, for `timers`. Waits for the device.
  void time_work() {
    timer_.start(*compute_);
    copy_timer_.start(*copies_);
  }
  /// Returns the timers of its two streams. They name a span by its trace::range_name.
  std::array<kernels::stream_timer*, 2> timers() { return {&timer_, &copy_timer_}; }
  kernels::stream_timer& copy_timer() { return copy_timer_; }

 protected:
  /// A position in a stream's order.
  struct place {
    std::uint64_t searches = 0;  ///< the number of searches for NaN and Inf whose results are on the host
    std::uint64_t means = 0;     ///< the number of received means that the device has used
  };
  /// Enqueues a copy of the searches' results on `on`, and returns the position after it. Requires: `on` waits for the
  /// work given to `compute()`.
  place follow(kernels::stream& on) { return {watch_.fetch(on), forgotten_means_ + means_.size()}; }
  /// Allows `check_finite` to use those searches, and releases those means; throws if one is invalid. Requires: the
  /// host has waited for the position.
  void arrive(const place& at);
  non_finite_watch& watch() { return watch_; }
  bool watches() const { return options_.watches; }
  /// Times the calls on a stream during the lifetime of the result.
  static kernels::stream_timer::scope timed(kernels::stream_timer& on, trace::range_name what) {
    return {on, static_cast<std::uint16_t>(what)};
  }

  kernels::stream_timer timer_;       ///< of `compute()`
  kernels::stream_timer copy_timer_;  ///< of `copies()`

 private:
  non_finite_watch::finding named(non_finite_watch::finding found) const;
  bool is_of_buffers(std::uint32_t bucket) const { return bucket == gradient_bucket_count(); }
  void look_at_bucket(std::uint64_t step, std::uint32_t bucket);
  msg::tensor share_of_buffers(bool is_theirs);
  msg::tensor share_in(const kernels::device_array<float>& array);
  msg::tensor copied_to(kernels::device_array<float>& array, std::span<const float> numbers);
  void update(nn::parameter_range range, const float* grad);
  msg::tensor copy_of(const kernels::device_array<float>& numbers);
  /// The arrays that make up the state, without absent ones.
  std::vector<kernels::device_array<float>*> parts();

  /// The network's buffers, which are kept with the weights and not trained.
  struct kept_buffers {
    kernels::device_array<float> now;
    kernels::device_array<float> before;  ///< those before the optimizer step, if `are_kept`
    kernels::device_array<float> share;   ///< this rank's
    bool are_shared = false;              ///< shared, and their mean has not come
    bool are_kept = false;
  };

  options options_;
  const std::vector<nn::parameter_range> normed_;

  kernels::device_array<float> weights_;
  kept_buffers buffers_;
  kernels::device_array<float> first_state_;
  kernels::device_array<float> second_state_;
  kernels::device_array<float> mean_;            ///< the whole gradient, with `applies_whole`
  std::deque<msg::blob> means_;                  ///< the last received means, which the stream may still use
  std::uint64_t forgotten_means_ = 0;            ///< the number of means received before them
  kernels::device_array<float> shared_numbers_;  ///< the numbers shared by `as_share`
  kernels::device_array<float> given_mean_;      ///< the mean of `as_mean`
  kernels::update_constants constants_;
  std::uint64_t last_pass_ = 0;            ///< the step of the last pass; 0: the optimizer step has none yet
  kernels::mirrored_array<double> norms_;  ///< of the `normed` means

  non_finite_watch watch_;
  std::optional<gradient_buckets> buckets_;

  // Declared last, so destroyed first, once their work is done. If both use an array, the host has waited for the first
  // stream before it enqueues on the other, or the other waits.
  std::unique_ptr<kernels::stream> copies_;  ///< to the device and back
  std::unique_ptr<kernels::stream> compute_;
};

}  // namespace troupe::actors
