// The micro-batches of a step at one stage of a pipeline: which of them is passed next, forward or back, and what is
// known of each.
//
// The schedule fixes the order, whatever comes first: a stage passes `alive_max` micro-batches forward, or as many as
// there are, then one back and one forward in turn, and the rest back. The gradients are added in the order of the
// micro-batches, as without stages. With 1F1B, three stages and four micro-batches (F forward, B back):
//
//   stage 0   F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3
//   stage 1      F0 F1 .  B0 F2 B1 F3 B2 .  B3
//   stage 2         F0 B0 F1 B1 F2 B2 F3 B3
//
// Where steps overlap (PipeDream: Narayanan et al., 2019) the same is done with whole batches, each an optimizer step:
// a stream of them, which ends where all actors must agree. After each B the stage waits for the mean and applies it.
// A batch goes back with the weights that it came forward with, of which a stage keeps a version for each batch under
// way; its gradient is applied to the newest.

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "actors/actor_trace.hpp"
#include "actors/dense_replica.hpp"
#include "actors/sliced_passes.hpp"
#include "model/job.hpp"
#include "model/tensor_parallel.hpp"
#include "protocol/part_messages.hpp"
#include "protocol/status.hpp"
#include "protocol/tensor.hpp"

namespace troupe::actors {

/// A stage of a pipeline, and a slice of it.
struct stage_place {
  std::uint32_t stage = 0;
  std::uint32_t stages = 1;
  model::pipeline_schedule schedule = model::pipeline_schedule::one_f_one_b;
  model::slice_place slice = {};

  bool is_first() const { return stage == 0; }
  bool is_last() const { return stage + 1 == stages; }
  std::uint32_t part() const { return stage * slice.slices + slice.slice; }
  /// How many ranks before this one is who gives it its input: the same slice of the stage before, or the leader.
  std::uint32_t ranks_from_input() const { return is_first() ? slice.slice : slice.slices; }
};

/// The place of a part of a job's network.
inline stage_place place_of_part(const model::job& what, std::uint32_t part) {
  const std::uint32_t slices = what.tensor_parallel;
  return {part / slices, what.pipeline, what.schedule, {part % slices, slices}};
}

/// The most micro-batches of `count` that are under way at a stage: passed forward, and not back.
constexpr std::uint32_t alive_max(const stage_place& at, std::uint32_t count) {
  return at.schedule == model::pipeline_schedule::gpipe ? count : std::min(at.stages - at.stage, count);
}

/// Whether a stage that has passed so many of `count` micro-batches passes one forward next; else one back.
constexpr bool is_forward_next(const stage_place& at, std::uint32_t count, std::uint32_t forward, std::uint32_t back) {
  return forward < count && forward - back < alive_max(at, count);
}

/// For status reports: how many micro-batches are under way at a stage.
inline msg::queue_status alive_status(const stage_place& at, std::uint32_t micro_batches, std::uint32_t alive) {
  const bool streams = at.schedule == model::pipeline_schedule::pipedream;
  return {fmt::format("{} under way, at most {}", streams ? "batches with their weights" : "micro-batches",
                      alive_max(at, streams ? at.stages : micro_batches)),
          alive, 0, 0};
}

class stage_passes;

/// For status reports: what the next micro-batch lacks, of the trainer `before` or `behind`. Requires: some are under
/// way.
void tell_lacking(const stage_passes& of, std::uint32_t before, std::uint32_t behind, std::uint64_t step,
                  msg::actor_status& now);

/// Belongs to one actor. On the processor only.
class stage_passes {
 public:
  using pass = dense_replica::pass;

  /// What is called on the way.
  struct receivers {
    /// The outputs of a batch's micro-batch are there, for the next stage; in a stream, perhaps of a batch of no
    /// samples, which has no activations. Not at the last stage.
    std::function<void(const pass& batch, const dense_replica::part& passed)> forward;
    /// The gradient of its input is there, for the stage before, and its loss. Not at the first stage.
    std::function<void(const pass& batch, std::uint32_t micro_batch, msg::tensor grad, double loss)> backward;
    /// A micro-batch's loss is known. At the last stage only; may be null.
    std::function<void(double loss)> loss;
    std::function<void(std::uint32_t bucket)> full;
    // In a stream: a batch begins its way back, and has been passed back: now it waits for `update`.
    std::function<void(const pass& batch)> turns = {};
    std::function<void(const pass& batch)> passed_back = {};
  };

  /// `advance` is called as the work of `slices`, of which there may be one.
  stage_passes(const stage_place& at, dense_replica& replica, const sliced_passes& slices, actor_trace& trace,
               receivers to)
      : at_(at), replica_(replica), slices_(slices), trace_(trace), to_(std::move(to)) {}

  /// A batch begins, of `count` micro-batches. `last`: the last one of its optimizer step.
  void begin(const pass& batch, std::uint32_t count, bool last);

  // A stream of batches, in order.
  void begin_stream();
  /// Returns the number of the next batch, as micro-batches are numbered.
  std::uint32_t add_batch(const pass& batch);
  /// There is no further one; `advance` passes all back.
  void end_stream();
  bool has_ended() const { return count_ != endless; }
  bool are_all_forward() const { return forward_ == count_; }
  /// The mean of the gradient has been applied.
  void update() { is_updating_ = false; }
  /// Returns the number of a step's batch; `endless` if it is not under way.
  std::uint32_t number_of(std::uint64_t step) const;
  /// The most optimizer steps that the weights of a batch lacked when its gradient was applied.
  std::uint32_t staleness() const { return staleness_; }
  static constexpr std::uint32_t endless = UINT32_MAX;

  /// The input of a micro-batch is there; `keeps` keeps it and the targets.
  void add_input(std::uint32_t micro_batch, const float* input, const model::loss_targets& targets,
                 std::vector<msg::tensor> keeps = {});
  /// The gradient of a micro-batch's outputs is there, and its loss. Returns an error if it is not lacking, or of
  /// another shape. `is_of_step`: it is of the step under way; in a stream its step tells the batch.
  caf::error take(msg::activation_gradient&& grad, bool is_of_step);
  bool lacks_input(std::uint32_t micro_batch) const;

  /// Passes micro-batches until the next one lacks something. Returns whether all have been passed back.
  bool advance();

  const stage_place& place() const { return at_; }
  bool is_under_way() const { return count_ > back_; }
  /// Whether the next micro-batch to pass lacks its input; else its gradient. Requires: some are under way.
  bool waits_for_input() const { return is_forward_next(at_, count_, forward_, back_); }
  std::uint32_t next() const { return waits_for_input() ? forward_ : back_; }
  /// For people: what the next one lacks, and of which step that is. `now`: the actor's step. Requires: as above.
  msg::wait_status lacking(std::uint64_t now) const;
  /// The step of the next one to go back.
  std::uint64_t step_back() const { return all_.empty() ? 0 : all_.front().batch.step; }
  /// The micro-batches passed forward, and not back.
  std::uint32_t alive() const { return forward_ - back_; }
  std::uint64_t batch_size() const { return all_.empty() ? 0 : all_.front().batch.size; }
  /// How long micro-batches have been passed, without waiting for other slices, and how long all batches have taken
  /// from their first pass to their last one, in seconds.
  double pass_seconds() const { return pass_seconds_; }
  double batch_seconds() const { return batch_seconds_; }
  /// The mean loss of the batch, over all micro-batches; in a stream, of the last one passed back.
  double loss() const { return loss_; }

 private:
  struct micro_batch {
    pass batch;
    std::uint32_t number = 0;  ///< in its batch
    const float* input = nullptr;
    model::loss_targets targets = {};
    std::vector<msg::tensor> keeps = {};
    std::optional<dense_replica::part> alive = {};
    std::optional<msg::tensor> grad = {};  ///< of the outputs
    double loss = 0;
    std::uint32_t updates = 0;  ///< of the stream, that its weights have
  };

  using clock = std::chrono::steady_clock;

  void restart(std::uint32_t count, bool streams);
  const micro_batch* find(std::uint32_t number) const;
  bool lacks_gradient(std::uint32_t micro_batch) const;
  /// The samples of a micro-batch that lacks something.
  std::size_t samples_of(std::uint32_t micro_batch) const;
  micro_batch& at(std::uint32_t number) { return all_[number - back_]; }
  void pass_next();
  void pass_forward(micro_batch& one);
  void pass_back(micro_batch& one);
  void pass_back_in_stream(micro_batch& one);
  void backward(micro_batch& one, bool last);

  const stage_place at_;
  dense_replica& replica_;
  const sliced_passes& slices_;
  actor_trace& trace_;
  const receivers to_;

  // These belong to the batch under way, or the stream.
  bool streams_ = false;
  std::uint32_t count_ = 0;
  std::uint32_t forward_ = 0;
  std::uint32_t back_ = 0;
  bool last_ = false;
  std::deque<micro_batch> all_;  ///< from the one on that goes back next
  clock::time_point began_;      ///< its first pass
  double loss_ = 0;
  // Of a stream.
  bool is_updating_ = false;
  dense_replica::version version_;  ///< of the current weights; null: not copied yet

  double pass_seconds_ = 0;
  double batch_seconds_ = 0;
  std::uint32_t staleness_ = 0;
};

}  // namespace troupe::actors
