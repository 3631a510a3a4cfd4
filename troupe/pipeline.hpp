// A network in stages, one after the other on as many trainers. A batch passes through them in micro-batches, so that
// the stages work at the same time; every optimizer step applies the mean of all replicas' gradients, stage by stage.
// The bits are those of the whole network trained with the same micro-batches.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "nn/pipeline_schedule.hpp"
#include "troupe/context.hpp"
#include "troupe/source_location.hpp"
#include "troupe/state.hpp"
#include "troupe/task.hpp"
#include "troupe/tensor.hpp"
#include "troupe/trained.hpp"

namespace troupe {

namespace runtime {
class pipeline_stage;
}

/// How a pipeline passes batches, and reduces its gradients.
struct pipeline_options {
  pipeline_schedule schedule = pipeline_schedule::one_f_one_b;
  /// The number of micro-batches of a batch; 0: as many as there are stages. A batch with fewer samples has fewer. With
  /// `pipedream`: 1, or 0.
  std::size_t micro_batches = 0;
  /// As in `data_parallel_options`.
  double bucket_mib = 25;
  const char* name = "";
};

/// This trainer's stage of a network. Belongs to the trainer that made it (`trainer::pipeline`).
class pipeline {
 public:
  using loss_of_classes = std::function<tensor(context&, const tensor& outputs, std::span<const std::int64_t> classes)>;
  using loss_of_targets = std::function<tensor(context&, const tensor& outputs, const tensor& targets)>;

  explicit pipeline(std::shared_ptr<runtime::pipeline_stage> of) : stage_(std::move(of)) {}

  std::uint32_t stage() const;
  std::uint32_t stages() const;
  /// The number of this trainer's replica of the whole network, and how many there are. All stages of a replica are
  /// given the same batch.
  std::uint32_t replica() const;
  std::uint32_t replicas() const;

  /// Passes a batch through the stages and back: leaves the gradient of its mean loss in the context, for an
  /// optimizer's step, and returns the loss, on every stage. The first dimension of input and targets counts the
  /// samples. The first stage uses the input's numbers, the last one the targets', and calls the loss, such as
  /// `nn::cross_entropy`, once for each micro-batch. All stages of a replica call this; those of a replica without a
  /// batch do not. `in` must live until the result has been awaited. Throws `error` if shapes do not fit, or the loss
  /// is NaN or Inf.
  ///
  /// With `pipedream` the batch passes forward, and a batch of up to P - 1 steps before passes back: the context's
  /// gradient and the loss are of that batch; NaN before the first one. Call it once for each optimizer step, on all
  /// replicas.
  task<double> step(context& in, const tensor& input, std::span<const std::int64_t> classes, loss_of_classes loss,
                    source_location at = source_location::current()) const;
  task<double> step(context& in, const tensor& input, const tensor& targets, loss_of_targets loss,
                    source_location at = source_location::current()) const;

  /// Passes a batch forward, in a context of `trainer::no_grad`: returns the outputs on the last stage, and an empty
  /// tensor on the others. All stages of a replica call this; with `pipedream` those of all replicas, since it drains
  /// first.
  task<tensor> infer(context& in, const tensor& input) const;

  /// With `pipedream`: passes pending batches back, and takes their optimizer steps. All stages of all replicas call
  /// this, after an optimizer's step. It also runs by itself before a checkpoint and when the trainer functions have
  /// returned. With other schedules: does nothing.
  task<> drain() const;

  /// The most micro-batches of a `step` (with `pipedream`: batches) that this stage has passed forward but not yet
  /// back.
  std::size_t max_in_flight() const;

  /// As in `data_parallel`, for this stage's tensors, by their names in the whole network. Tensors of other stages in
  /// `state` are ignored, so that all stages can load one file. Throw `error` while batches are pending (`drain`).
  named_tensors state_dict() const;
  void load_state_dict(const named_tensors& state) const;

  runtime::trained trained() const;

 private:
  std::shared_ptr<runtime::pipeline_stage> stage_;
};

}  // namespace troupe
