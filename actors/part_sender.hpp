// What the trainer that leads a replica sends to the trainers with the other parts of its network.

#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "actors/actor_trace.hpp"
#include "actors/network_input.hpp"
#include "actors/step_schedule.hpp"
#include "actors/trainer_assignment.hpp"
#include "model/micro_batch.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// Belongs to the trainer's actor.
class part_sender {
 public:
  using pointer = msg::program_trainer_actor::pointer;

  /// `parts`: from part 1. Requires: the arguments outlive this object.
  part_sender(pointer self, actor_trace& trace, const trainer_assignment& assigned, const step_schedule& schedule,
              std::vector<msg::part_actor> parts)
      : self_(self), trace_(trace), assigned_(assigned), schedule_(schedule), parts_(std::move(parts)) {}

  /// How many other parts there are; they have the numbers 1 to `count`.
  std::uint32_t count() const { return static_cast<std::uint32_t>(parts_.size()); }
  const msg::part_actor& part(std::uint32_t part) const { return parts_[part - 1]; }
  /// The number of its actor in the run.
  std::uint32_t number_of(std::uint32_t part) const;

  // -- to the other slices of its stage ------------------------------------------------

  /// Its share of a sum.
  void send_share(std::uint64_t step, std::uint64_t number, const msg::tensor& share);
  /// A copy of a micro-batch's input [samples of the batch, width], which the caller uses again before they have ended.
  void send_input(std::uint64_t step, const network_input& input, std::size_t width,
                  const std::shared_ptr<const model::batch>& of, model::micro_batch samples, std::uint32_t number,
                  bool trains);

  // -- to the next stage --------------------------------------------------------------

  /// Its outputs for a micro-batch; those of an evaluation (`trains` is false) go without targets.
  void send_forward(std::uint64_t step, const std::shared_ptr<const model::batch>& of, model::micro_batch samples,
                    std::uint32_t number, msg::tensor outputs, bool trains);
  /// The step's batch has no samples.
  void send_none(std::uint64_t step);
  /// The steps that overlap end with this one: the stage passes back all that it has, and then waits.
  void send_end_of_stream(std::uint64_t step);

  /// The step's batch has no samples: to all whom this part sends inputs or outputs.
  void send_none_to_all(std::uint64_t step);

 private:
  const msg::part_actor& next_stage() const { return part(assigned_.job->tensor_parallel); }
  msg::activation activation_of(std::uint64_t step);
  msg::activation activation_of(std::uint64_t step, const std::shared_ptr<const model::batch>& of,
                                model::micro_batch samples, std::uint32_t number, msg::tensor numbers, bool trains);

  pointer self_;
  actor_trace& trace_;
  const trainer_assignment& assigned_;
  const step_schedule& schedule_;
  std::vector<msg::part_actor> parts_;
};

}  // namespace troupe::actors
