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

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "actors/actor_trace.hpp"
#include "actors/dense_replica.hpp"
#include "actors/sliced_passes.hpp"
#include "model/job.hpp"
#include "model/tensor_parallel.hpp"
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
  return {fmt::format("micro-batches under way, at most {}", alive_max(at, micro_batches)), alive, 0, 0};
}

/// Belongs to one actor. On the processor only.
class stage_passes {
 public:
  /// What is called on the way.
  struct receivers {
    /// A micro-batch's outputs are there, for the next stage. Not at the last stage.
    std::function<void(const dense_replica::part& passed)> forward;
    /// The gradient of its input is there, for the stage before, and its loss. Not at the first stage.
    std::function<void(std::uint32_t micro_batch, msg::tensor grad, double loss)> backward;
    /// A micro-batch's loss is known. At the last stage only; may be null.
    std::function<void(double loss)> loss;
    std::function<void(std::uint32_t bucket)> full;
  };

  /// `advance` is called as the work of `slices`, of which there may be one.
  stage_passes(const stage_place& at, dense_replica& replica, const sliced_passes& slices, actor_trace& trace,
               receivers to)
      : at_(at), replica_(replica), slices_(slices), trace_(trace), to_(std::move(to)) {}

  /// A batch begins, of `count` micro-batches. `last`: the last one of its optimizer step.
  void begin(const dense_replica::pass& batch, std::uint32_t count, bool last);
  /// The input of a micro-batch is there; `keeps` keeps it and the targets.
  void add_input(std::uint32_t micro_batch, const float* input, const model::loss_targets& targets,
                 std::vector<msg::tensor> keeps = {});
  /// The gradient of its outputs is there, and its loss.
  void add_gradient(std::uint32_t micro_batch, msg::tensor grad, double loss);
  bool lacks_input(std::uint32_t micro_batch) const;
  bool lacks_gradient(std::uint32_t micro_batch) const;

  /// Passes micro-batches until the next one lacks something. Returns whether all have been passed back.
  bool advance();

  const stage_place& place() const { return at_; }
  bool is_under_way() const { return count_ > back_; }
  /// Whether the next micro-batch to pass lacks its input; else its gradient. Requires: the batch is under way.
  bool waits_for_input() const { return is_forward_next(at_, count_, forward_, back_); }
  std::uint32_t next() const { return waits_for_input() ? forward_ : back_; }
  /// The micro-batches passed forward, and not back.
  std::uint32_t alive() const { return forward_ - back_; }
  std::uint64_t batch_size() const { return batch_size_; }
  /// How long micro-batches have been passed, without waiting for other slices, and how long all batches have taken
  /// from their first pass to their last one, in seconds.
  double pass_seconds() const { return pass_seconds_; }
  double batch_seconds() const { return batch_seconds_; }
  /// The mean loss of the batch, over all micro-batches. Requires: all have been passed.
  double loss() const;

 private:
  struct micro_batch {
    const float* input = nullptr;
    model::loss_targets targets;
    std::vector<msg::tensor> keeps;
    std::optional<dense_replica::part> alive;
    std::optional<msg::tensor> grad;  ///< of the outputs
    double loss = 0;
  };

  using clock = std::chrono::steady_clock;

  void pass_next();
  void pass_forward(micro_batch& one);
  void pass_back(micro_batch& one);

  const stage_place at_;
  dense_replica& replica_;
  const sliced_passes& slices_;
  actor_trace& trace_;
  const receivers to_;

  // These belong to the batch under way.
  std::uint64_t step_ = 0;
  std::uint64_t batch_size_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t forward_ = 0;
  std::uint32_t back_ = 0;
  bool last_ = false;
  std::vector<micro_batch> all_;
  clock::time_point began_;  ///< its first pass

  double pass_seconds_ = 0;
  double batch_seconds_ = 0;
};

}  // namespace troupe::actors
