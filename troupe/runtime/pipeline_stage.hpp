// A trainer's stage of a pipeline: a replica of its part of the network, which receives activations from the stage
// before and gradients from the stage after. The trainer has the rank replica x stages + stage.
//
// This is a step with three stages (n: the number of samples; x, g: a micro-batch's activations and their gradients):
//
//   stage 0 ── n x x .. ──▶ stage 1 ── n x x .. ──▶ stage 2
//           ◀── g g .. loss ──      ◀── g g .. loss ──
//
// Where steps overlap (pipedream) a batch is not cut, and a stage has several batches pending, each with its own
// context and version of the weights. In its step n, stage s of P passes batch n forward, and batch n - (P - s - 1)
// back, whose gradient the optimizer applies to the newest weights. `drain` passes the pending ones back.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "model/micro_batch.hpp"
#include "model/pipeline_executor.hpp"
#include "troupe/composition.hpp"
#include "troupe/context.hpp"
#include "troupe/pipeline.hpp"
#include "troupe/runtime/network_part.hpp"
#include "troupe/runtime/replica.hpp"
#include "troupe/source_location.hpp"
#include "troupe/task.hpp"

namespace troupe::runtime {

class trainer_runtime;

/// The loss of some samples of a batch.
using batch_loss = std::function<tensor(context& in, const tensor& outputs, const model::micro_batch& samples)>;

/// Returns some samples of a batch. Shares its memory.
tensor samples_of(const tensor& batch, const model::micro_batch& samples);

/// Belongs to a trainer, which outlives it.
class pipeline_stage {
 public:
  /// Throws `error` if the trainers cannot be grouped into pipelines of so many stages, or if a stage is invalid.
  pipeline_stage(trainer_runtime& of, const std::vector<nn::sequential>& stages, const pipeline_options& options);

  /// See `pipeline`.
  task<double> step(context& in, tensor input, batch_loss loss, source_location at) {
    ++asked_;
    return take_step(in, std::move(input), std::move(loss), at);
  }
  /// Throws `error` if a task of `step` was not awaited; `what`: the action that needs this.
  void check_steps_awaited(const char* what) const;
  /// The same; also throws if the last optimizer step was not awaited.
  void check_idle(const char* what) const;
  task<tensor> infer(context& in, tensor input);
  task<> drain();
  named_tensors state_dict() const;
  void load(const named_tensors& state);

  const model::stage_place& place() const { return place_; }
  /// Whether its steps overlap.
  bool overlaps() const { return place_.schedule == pipeline_schedule::pipedream; }
  /// Returns the optimizer step, from 1, of the gradient in the context of the last `step`; none if no batch has passed
  /// back yet. Throws `error` if `with` is not that context. Requires: `overlaps`.
  std::optional<std::uint64_t> take_gradient(const tape& with);
  network_part& part() { return part_; }
  const network_part& part() const { return part_; }
  std::size_t max_in_flight() const { return max_in_flight_; }
  runtime::replica& numbers() const { return *replica_; }
  const std::shared_ptr<runtime::replica>& replica() const { return replica_; }

 private:
  /// A pending batch.
  struct passing {
    std::uint64_t step;  ///< the trainer's step; where steps overlap, its optimizer step
    context& in;
    tensor input;
    batch_loss loss;
    std::uint32_t count = 1;                 ///< the number of micro-batches
    std::unique_ptr<context> own = nullptr;  ///< owns `in` where steps overlap
    double loss_sum = 0;

    std::size_t samples() const { return input.shape()[0]; }
    model::micro_batch part(std::uint32_t number) const { return model::micro_batch_of(samples(), count, number); }
    /// The weight of its loss, a mean over its samples, in the batch's loss.
    double share(std::uint32_t number) const {
      return static_cast<double>(part(number).size) / static_cast<double>(samples());
    }
  };
  /// What a pending micro-batch keeps.
  struct kept {
    std::shared_ptr<passing> batch;
    tensor input = {};
    tensor output = {};  ///< at the last stage, the loss
  };
  using executor = model::pipeline_executor<kept>;

  task<double> take_step(context& in, tensor input, batch_loss loss, source_location at);
  void check_shapes(const tensor& input, std::size_t samples);
  task<> agree_on_samples(std::size_t samples);
  void begin_step(const tape& on);
  task<> pass_forward(executor::entry& one);
  task<> pass_back(executor::entry& one);
  task<> exchange_loss(passing& batch);
  void check_drained(const char* what) const;
  const group& along() const { return part_.along(); }
  task<tensor> received(std::uint32_t from, std::uint32_t tag, shape wanted, dtype type = dtype::f32) const;

  trainer_runtime& trainer_;
  std::vector<nn::sequential> parts_;  ///< of all stages
  model::stage_place place_;
  std::size_t micro_batches_;
  std::shared_ptr<runtime::replica> replica_;  ///< made before the part: it checks that memory can hold the stage
  network_part part_;

  std::vector<shape> checked_;  ///< the shapes of a micro-batch's activations before each stage and after the last,
                                ///< known to all stages
  std::uint64_t context_ = 0;   ///< the last context's number
  std::uint64_t passes_ = 0;    ///< the number of passes in that context
  std::uint64_t asked_ = 0;     ///< the number of tasks of `step`
  std::uint64_t begun_ = 0;     ///< how many of these tasks were awaited
  std::uint32_t max_in_flight_ = 0;
  source_location at_;                 ///< of the last `step`: the location reported for its sends and receives
  executor order_ = executor(place_);  ///< of the pending batch, or of the overlapping ones

  // Where steps overlap.
  std::uint64_t stepped_in_ = 0;           ///< the context that waits for its optimizer step; 0: none
  std::optional<std::uint64_t> gradient_;  ///< the optimizer step of the context's gradient, if it has one
};

}  // namespace troupe::runtime
