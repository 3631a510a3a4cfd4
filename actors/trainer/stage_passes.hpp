// The passes of a stage's micro-batches in the program: the replica computes the passes that the executor names, and
// sends their outputs and gradients to the neighbouring stages.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "actors/common/actor_trace.hpp"
#include "actors/trainer/dense_replica.hpp"
#include "actors/trainer/pipeline_links.hpp"
#include "actors/trainer/sliced_passes.hpp"
#include "model/pipeline_executor.hpp"
#include "protocol/messages.hpp"
#include "protocol/status.hpp"

namespace troupe::actors {

/// Belongs to one actor. On the processor only.
class stage_passes {
 public:
  using pass = dense_replica::pass;

  /// The data of an active micro-batch.
  struct kept {
    pass batch = {};
    msg::activation input = {};
    const float* numbers = nullptr;  ///< the input's
    std::optional<dense_replica::part> in_flight = {};
    msg::tensor grad = {};  ///< of the outputs
  };
  using executor = model::pipeline_executor<kept>;

  /// The callbacks.
  struct receivers {
    /// A micro-batch's loss is known. At the last stage only; may be null.
    std::function<void(double loss)> loss;
    std::function<void(std::uint32_t bucket)> full;
    // In a stream: a step's batch begins its backward pass; it has been passed back, and now waits for the update.
    std::function<void(std::uint64_t step)> turns;
    std::function<void()> passed_back;
  };

  /// `advance` is called as work of `slices`, even if there is only one slice.
  stage_passes(const model::stage_place& at, dense_replica& replica, const sliced_passes& slices,
               const pipeline_links& links, actor_trace& trace, receivers to)
      : replica_(replica), slices_(slices), links_(links), trace_(trace), to_(std::move(to)), executor_(at) {}

  /// Begins a batch of `count` micro-batches. `last`: it is the last one of its optimizer step.
  void begin(const pass& batch, std::uint32_t count, bool last);
  /// Adds the input of a micro-batch, with its targets. `numbers` [samples, in_features] stay until it has been passed
  /// back;
  /// null: those of the message. Fails if the input is not expected.
  caf::error add_input(msg::activation&& input, const float* numbers = nullptr);
  void begin_stream();
  /// The same for the next batch of a stream, which may have no samples.
  caf::error add_batch(const pass& batch, msg::activation&& input, const float* numbers = nullptr);
  /// Adds the gradient of a micro-batch's outputs, and its loss. Fails if it is not expected, or has another shape.
  caf::error take(msg::activation_gradient&& grad);

  /// Passes micro-batches until the next one lacks something. Returns whether all have been passed back.
  bool advance();

  executor& order() { return executor_; }
  const executor& order() const { return executor_; }
  /// Reports what the next micro-batch lacks. `step`: the actor's. Requires: some micro-batches are not passed back.
  void report_lacking(std::uint64_t step, msg::actor_status& now) const;
  /// Reports how many micro-batches are active. `micro_batches`: those of a whole batch.
  void report_in_flight(std::uint32_t micro_batches, msg::actor_status& now) const;
  /// Seconds spent on passes, without waiting for other slices; and seconds of all batches from their first pass to
  /// their last.
  double pass_seconds() const { return pass_seconds_; }
  double batch_seconds() const { return batch_seconds_; }

 private:
  using clock = std::chrono::steady_clock;
  using entry = executor::entry;

  void keep(entry& one, msg::activation&& input, const float* numbers);
  void pass_next();
  void pass_forward(entry& one);
  void pass_back(entry& one);
  void backward(entry& one, bool last);

  dense_replica& replica_;
  const sliced_passes& slices_;
  const pipeline_links& links_;
  actor_trace& trace_;
  const receivers to_;
  executor executor_;

  pass batch_;                              ///< the current batch; unused in a stream
  bool last_ = true;                        ///< `batch_` is the last one of its optimizer step
  std::optional<clock::time_point> began_;  ///< time of the first pass of `batch_`, or of the stream
  double pass_seconds_ = 0;
  double batch_seconds_ = 0;
};

}  // namespace troupe::actors
