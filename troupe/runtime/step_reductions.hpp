// Reduces the gradients of a trainer's replicas with other trainers' in an optimizer step, and votes in it. The step
// awaits every mean.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/trainer/allreduce_client.hpp"
#include "actors/trainer/step_votes.hpp"
#include "troupe/future.hpp"
#include "troupe/runtime/communicator.hpp"
#include "troupe/runtime/completion.hpp"
#include "troupe/runtime/program_assignment.hpp"
#include "troupe/runtime/replica.hpp"
#include "troupe/runtime/same_optimizers.hpp"
#include "troupe/runtime/task_requests.hpp"

namespace troupe::runtime {

/// Belongs to a trainer.
class step_reductions {
 public:
  /// `with`: reaches the other trainers. Requires: the arguments outlive this object.
  step_reductions(const task_requests& requests, const program_assignment& assigned, communicator& with,
                  actors::step_votes& votes)
      : requests_(requests), assigned_(assigned), communicator_(with), votes_(votes) {}

  /// The position of a context's gradient in an optimizer step.
  struct update_part {
    std::uint64_t update = 0;  ///< the optimizer step
    bool begins = true;        ///< whether it is the first of that step
    bool ends = true;          ///< whether it is the last of that step
  };

  /// Adds a replica's gradient of the context to its optimizer step's, and reduces that when it is complete.
  void reduce(tape& with, replica& one, const update_part& as, const completion_ptr& all);
  /// Reduces and applies the gradient of a replica that is not reduced with all trainers, as optimizer step `update`.
  future<> apply_gradient(tape& of, replica& one, std::uint64_t update);

  same_optimizers& optimizers() { return optimizers_; }

  /// Exchanges the numbers of a pass with the other trainers' passes. Returns all numbers by rank; trainers without a
  /// pass give an empty tensor. `text`: names the pass in errors.
  future<std::vector<tensor>> gather(std::string text, tensor numbers);
  /// Joins the passes of other trainers, without numbers, until all trainers have reached this step.
  void join_idle(const completion_ptr& all);

 private:
  using vote = actors::step_votes::vote;

  std::uint64_t step() const { return requests_.actor().step; }
  void reduce_among_all(tape& with, replica& one, const update_part& as, const completion_ptr& all);
  void reduce_among_some(tape& with, replica& one, const update_part& as, const completion_ptr& all);
  void reduce_overlapping(tape& with, replica& one, const completion_ptr& all);
  void send_share(std::uint32_t bucket, std::uint32_t weight, msg::tensor share, auto on_mean, auto on_error);
  future<vote> ask_for_votes(replica& by);
  void agree(replica& one, const completion_ptr& all);
  void agree_later(replica& one, const completion_ptr& all);

  const task_requests& requests_;
  const program_assignment& assigned_;
  communicator& communicator_;
  actors::step_votes& votes_;
  same_optimizers optimizers_{communicator_};
  std::optional<future<vote>> late_votes_;  ///< where steps overlap: of some steps ago
};

}  // namespace troupe::runtime
