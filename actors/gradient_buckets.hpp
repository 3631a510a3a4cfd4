// The gradient of a replica's parameters in one optimizer step, cut into buckets that are averaged over all ranks while
// the backward pass goes on. A bucket is a stretch of the flat parameter buffer, last layers first.
//
//                  ┌───────────────────────────────────────────┐
//                  ▼                                           │
//   resting ──▶ filling ──▶ full ──▶ reducing ──▶ resting      │  (the next optimizer step)
//                  │                     ▲            └────────┘
//                  └─────────────────────┘
//
//   | from     | to       | when                                                                            |
//   |----------|----------|---------------------------------------------------------------------------------|
//   | resting  | filling  | `open`: an optimizer step begins                                                |
//   | filling  | full     | `finished`: the last batch's backward pass has written all of its layers        |
//   | full     | reducing | `share`: this rank's share leaves                                               |
//   | filling  | reducing | `share`: it leaves without that pass, as this rank has no batch, or a spoilt one |
//   | reducing | resting  | `settle`: the mean has come                                                     |
//
// On the processor each bucket has memory of its own, which the share takes along. On a CUDA device all of them are
// stretches of one buffer, and a share leaves with the event after which it is written.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/device_array.hpp"
#include "model/parameters.hpp"
#include "protocol/tensor.hpp"

namespace troupe::actors {

/// Not thread-safe. Must outlive the work of its stream.
class gradient_buckets {
 public:
  enum class state : std::uint8_t { resting, filling, full, reducing };

  static constexpr bool may_follow(state from, state to) {
    switch (to) {
      case state::resting:
        return from == state::reducing;
      case state::filling:
        return from == state::resting;
      case state::full:
        return from == state::filling;
      case state::reducing:
        return from == state::filling || from == state::full;
    }
    return false;
  }

  /// `plan`: the buckets' parameters, from the last ones down to the first, without gaps. Works on `on`.
  gradient_buckets(kernels::stream& on, std::vector<model::parameter_range> plan);

  std::size_t size() const { return buckets_.size(); }
  model::parameter_range range(std::uint32_t bucket) const { return plan_[bucket]; }
  state state_of(std::uint32_t bucket) const { return buckets_[bucket].is; }
  /// Batches whose gradients are summed in them.
  std::uint32_t batches() const { return batches_; }

  /// A new optimizer step: empty buckets.
  void open();

  /// A backward pass begins: `gradient_at` tells where it is to put a layer's gradient, and `finished` that this is
  /// written, or will be in the stream's order. Of the last batch of the optimizer step, it returns the bucket that is
  /// full now, if any.
  void begin_batch() { ++batches_; }
  float* gradient_at(model::parameter_range range);
  std::optional<std::uint32_t> finished(model::parameter_range range, bool is_last_batch);

  /// A bucket's gradient so far.
  const float* numbers(std::uint32_t bucket) { return at(plan_[bucket]); }

  /// On a device: the share of this full bucket, when it leaves, is what the stream has been asked for until now.
  void mark(std::uint32_t bucket);

  /// A batch without a loss spoils the optimizer step; that shows in what the ranks add up, so all of them learn it.
  /// `was_passed`: its backward pass has been.
  void poison(bool was_passed);

  /// What a bucket has become, for a message; zeros if there was no batch. Nobody writes it before `settle`.
  msg::tensor share(std::uint32_t bucket);
  void settle(std::uint32_t bucket) { enter(bucket, state::resting); }

 private:
  struct contents {
    state is = state::resting;
    msg::tensor_buffer grad;  ///< the processor's
    msg::tensor marked;       ///< a device's: the share
    std::size_t written = 0;  ///< parameters, by the last batch
  };

  void enter(std::uint32_t bucket, state next);
  std::uint32_t bucket_of(model::parameter_range range) const;
  float* at(model::parameter_range range);
  msg::tensor on_device_now(std::uint32_t bucket);
  bool is_on_host() const { return on_->device().is_host(); }

  kernels::stream* on_;
  std::vector<model::parameter_range> plan_;
  std::vector<contents> buckets_;
  std::uint32_t batches_ = 0;
  kernels::device_array<float> all_;      ///< a device's buckets
  kernels::device_array<float> further_;  ///< a layer's gradient of a further batch, before it is added to its bucket
};

}  // namespace troupe::actors
