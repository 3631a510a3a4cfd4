// The gradient of a replica's parameters in one optimizer step, cut into buckets that are averaged over all ranks while
// the backward pass continues. A bucket is a range of the flat parameter buffer, last layers first.
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
//   | filling  | full     | `finished`: the last backward pass has written all of its layers                |
//   | full     | reducing | `share`: this rank's share is sent                                              |
//   | filling  | reducing | `share`: sent without that pass, as this rank has no batch, or a spoilt one     |
//   | reducing | resting  | `settle`: the mean has arrived                                                  |
//
// On the processor each bucket has its own memory, which the share takes over. On a CUDA device all buckets are ranges
// of one buffer, and a share carries the event after which it is written.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/device_array.hpp"
#include "nn/parameters.hpp"
#include "protocol/tensor.hpp"

namespace troupe::actors {

/// Cuts the parameters into buckets for allreduce, in the backward pass's order: whole layers, last one first. A bucket
/// ends when it has reached its size (`first_bytes` for the first one).
std::vector<nn::parameter_range> plan_buckets(const std::vector<nn::parameter_range>& layers, std::size_t first_bytes,
                                              std::size_t bytes);

/// Not thread-safe. Must outlive the work of its stream.
class gradient_buckets {
 public:
  enum class state : std::uint8_t { resting, filling, full, reducing };

  static constexpr bool may_follow(state from, state to) {
    using enum state;
    constexpr std::pair<state, state> table[] = {
        {resting, filling}, {filling, full}, {filling, reducing}, {full, reducing}, {reducing, resting}};
    return std::ranges::find(table, std::pair(from, to)) != std::end(table);
  }

  /// `plan`: the buckets' parameters, from the last down to the first, without gaps. `on`: the stream for all work.
  gradient_buckets(kernels::stream& on, std::vector<nn::parameter_range> plan);

  std::size_t size() const { return buckets_.size(); }
  nn::parameter_range range(std::uint32_t bucket) const { return plan_[bucket]; }
  state state_of(std::uint32_t bucket) const { return buckets_[bucket].is; }
  /// The number of batches whose gradients are summed in the buckets; a batch of several micro-batches counts once.
  std::uint32_t batches() const { return batches_; }

  /// Begins an optimizer step with empty buckets.
  void open();

  /// `begin_pass` begins a backward pass of a batch, or of a further micro-batch of the same one. `gradient_at` returns
  /// where to write a layer's gradient. `finished`: that gradient is written, or enqueued on the stream; in the last
  /// pass of the optimizer step, returns the bucket that is full now, if any.
  void begin_pass(bool is_of_same_batch) {
    ++passes_;
    if (!is_of_same_batch) ++batches_;
  }
  float* gradient_at(nn::parameter_range range);
  std::optional<std::uint32_t> finished(nn::parameter_range range, bool is_last_pass);

  /// A bucket's gradient so far.
  const float* numbers(std::uint32_t bucket) { return at(plan_[bucket]); }

  /// On a device: fixes the share of this full bucket as the work enqueued on the stream so far.
  void mark(std::uint32_t bucket);

  /// Spoils the optimizer step if a batch has no valid loss: every rank sees it in the sum. `was_passed`: the backward
  /// pass has run.
  void poison(bool was_passed);

  /// Returns the bucket for a message; zeros if there was no batch. Its memory is not written before `settle`.
  msg::tensor share(std::uint32_t bucket);
  void settle(std::uint32_t bucket) { enter(bucket, state::resting); }

 private:
  struct contents {
    state is = state::resting;
    msg::tensor_buffer grad;  ///< on the processor
    msg::tensor marked;       ///< on a device: the share
    std::size_t written = 0;  ///< parameters that the last pass has written
  };

  void enter(std::uint32_t bucket, state next);
  std::uint32_t bucket_of(nn::parameter_range range) const;
  float* at(nn::parameter_range range);
  msg::tensor on_device_now(std::uint32_t bucket);
  bool is_on_host() const { return on_->device().is_host(); }

  kernels::stream* on_;
  std::vector<nn::parameter_range> plan_;
  std::vector<contents> buckets_;
  std::uint32_t batches_ = 0;
  std::uint32_t passes_ = 0;              ///< the passes that have written into the buckets
  kernels::device_array<float> all_;      ///< all buckets, on a device
  kernels::device_array<float> further_;  ///< a layer's gradient of a further pass, before it is added to its bucket
};

}  // namespace troupe::actors
