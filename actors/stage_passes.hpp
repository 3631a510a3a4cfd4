// The passes of a stage's micro-batches in the program: the replica computes what the executor names, and their outputs
// and gradients go to the stages beside this one.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "actors/actor_trace.hpp"
#include "actors/dense_replica.hpp"
#include "actors/part_links.hpp"
#include "actors/sliced_passes.hpp"
#include "model/pipeline_executor.hpp"
#include "protocol/messages.hpp"
#include "protocol/status.hpp"

namespace troupe::actors {

/// Belongs to one actor. On the processor only.
class stage_passes {
 public:
  using pass = dense_replica::pass;

  /// What a micro-batch under way keeps.
  struct kept {
    pass batch = {};
    msg::activation input = {};
    const float* numbers = nullptr;  ///< the input's
    std::optional<dense_replica::part> alive = {};
    msg::tensor grad = {};  ///< of the outputs
  };
  using executor = model::pipeline_executor<kept>;

  /// What is called on the way.
  struct receivers {
    /// A micro-batch's loss is known. At the last stage only; may be null.
    std::function<void(double loss)> loss;
    std::function<void(std::uint32_t bucket)> full;
    // In a stream: the batch of a step begins its way back, and has been passed back: now it waits for the update.
    std::function<void(std::uint64_t step)> turns;
    std::function<void()> passed_back;
  };

  /// `advance` is called as the work of `slices`, of which there may be one.
  stage_passes(const model::stage_place& at, dense_replica& replica, const sliced_passes& slices,
               const part_links& links, actor_trace& trace, receivers to)
      : replica_(replica), slices_(slices), links_(links), trace_(trace), to_(std::move(to)), executor_(at) {}

  /// A batch begins, of `count` micro-batches. `last`: the last one of its optimizer step.
  void begin(const pass& batch, std::uint32_t count, bool last);
  /// Takes the input of a micro-batch, with its targets. `numbers` [samples, in_features] stay until it has been passed
  /// back; null: those of the message. Fails if the input is not awaited.
  caf::error add_input(msg::activation&& input, const float* numbers = nullptr);
  void begin_stream();
  /// The same for the next batch of a stream, which may have no samples.
  caf::error add_batch(const pass& batch, msg::activation&& input, const float* numbers = nullptr);
  /// Takes the gradient of a micro-batch's outputs, and its loss. Fails if it is not awaited, or has another shape.
  caf::error take(msg::activation_gradient&& grad);

  /// Passes micro-batches until the next one lacks something. Returns whether all have been passed back.
  bool advance();

  executor& order() { return executor_; }
  const executor& order() const { return executor_; }
  /// Adds what the next micro-batch lacks. `step`: the actor's. Requires: some are not passed back.
  void tell_lacking(std::uint64_t step, msg::actor_status& now) const;
  /// Adds how many are under way. `micro_batches`: of a whole batch.
  void tell_alive(std::uint32_t micro_batches, msg::actor_status& now) const;
  /// How long micro-batches have been passed, without waiting for other slices, and how long all batches have taken
  /// from their first pass to their last one, in seconds.
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
  const part_links& links_;
  actor_trace& trace_;
  const receivers to_;
  executor executor_;

  pass batch_;                              ///< under way; of no stream
  bool last_ = true;                        ///< it is the last one of its optimizer step
  std::optional<clock::time_point> began_;  ///< its first pass, or that of the stream
  double pass_seconds_ = 0;
  double batch_seconds_ = 0;
};

}  // namespace troupe::actors
