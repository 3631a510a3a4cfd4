// A step of a network that is cut into parts, the slices of stages: this trainer has the first part, and leads the
// other parts of its replica. A batch's micro-batches go through the parts and back (`stage_passes`, `sliced_passes`)
// instead of passing this part alone. The other trainers follow (`pipeline_worker`), also with test rows; their states
// belong to each checkpoint and to the final weights.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "actors/common/actor_name.hpp"
#include "actors/trainer/pipeline_links.hpp"
#include "actors/trainer/sliced_passes.hpp"
#include "actors/trainer/stage_passes.hpp"
#include "actors/trainer/step_body.hpp"
#include "model/batch.hpp"
#include "model/exact_sum.hpp"

namespace troupe::actors {

/// Belongs to the trainer's actor. On the processor only.
class pipeline_leader : public step_body {
 public:
  /// `others`: the trainers with the other parts of the network, from part 1.
  pipeline_leader(step_work& work, std::vector<msg::part_actor> others);

  caf::error begin(const msg::trainer_position& from, kernels::device& device) override;
  void run() override;
  model::exact_sum squared_norm() override;
  void decide(bool applies, float factor) override;
  void evaluate(const std::function<void()>& then) override;
  void gather(bool ends, const std::function<void()>& then) override;
  std::vector<msg::tensor> state() override;
  outcome end() override;
  void report(msg::actor_status& now) const override;
  caf::error take(msg::activation_gradient&& grad) override;
  caf::error take(msg::part_outputs&& outputs) override;
  caf::error take(msg::partial_sum&& share) override;

 protected:
  stage_passes& passes() { return *passes_; }
  const pipeline_links& links() const { return links_; }
  stage_passes::pass pass_of(std::uint64_t of_step, std::size_t size) const;
  msg::activation activation_of(std::uint64_t of_step) const;
  msg::activation activation_of(std::uint64_t of_step, const std::shared_ptr<const model::batch>& of,
                                std::uint32_t number) const;
  void advance_passes();
  /// Passes the micro-batches that have come. Returns whether the step's batch has been passed back; for a stream,
  /// `passed_back` says so.
  virtual bool pass_on() { return passes_->advance(); }

 private:
  template <class Answer, class Message, class F>
  void ask_part(std::uint32_t part, Message message, F on_answer) {
    work_.ask<Answer>(others_[part - 1], trainer_number(work_.assigned.rank + part, work_.assigned.servers),
                      std::move(message), std::move(on_answer));
  }
  void send_bucket(std::uint32_t bucket) { work_.send_bucket(bucket, true); }
  void send_input_beside(msg::activation what, const float* numbers, std::size_t samples);
  void after_passes();
  void passed_through_parts();
  void ask_parts_for_norms();
  msg::activation tested_activation() const;
  void has_outputs(const float* outputs);

  const std::vector<msg::part_actor> others_;
  const pipeline_links links_;                    ///< of this part
  model::exact_sum squared_norm_;                 ///< of the other parts' gradients
  std::vector<std::vector<msg::tensor>> states_;  ///< of all parts, added as they come
  double pass_seconds_ = 0;                       ///< of all parts, added as they come
  bool are_through_ = false;                      ///< the step's micro-batches have been passed back
  std::optional<dense_replica::part> evaluated_;  ///< this part's passes of the current test rows
  std::size_t missing_outputs_ = 0;               ///< the outputs of the current test rows that have not come
  std::function<void()> scored_;                  ///< called when they have come
  std::optional<stage_passes> passes_;            ///< of this part
  sliced_passes slices_;                          ///< destroyed first: a waiting pass uses the others
};

}  // namespace troupe::actors
