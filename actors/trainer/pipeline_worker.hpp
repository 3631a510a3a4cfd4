// A trainer with another part of a network than its leader: a stage of a pipeline after the first one, or a slice after
// the first one of its stage. It passes the micro-batches from the stage before, or from the leader, forward, and their
// gradients back, reduces its gradient with the same part of the other replicas, and applies it. Slices wait for each
// other within a pass (`sliced_passes`).
//
//   idle ──▶ passing ──▶ reducing ──▶ deciding ──▶ idle          idle ──▶ done        any but done ──▶ failed
//
// If steps overlap, it passes several of them until it is notified that no further one follows, and reduces after each
// backward pass.
//
//   | from     | to       | when                                                                             |
//   |----------|----------|----------------------------------------------------------------------------------|
//   | idle     | passing  | the first micro-batch of a step comes                                            |
//   | idle     | reducing | a message says that the replica has no batch in an optimizer step's last step    |
//   | passing  | idle     | all are passed back, and the optimizer step has further batches                  |
//   | passing  | reducing | all are passed back                                                              |
//   | reducing | idle     | the means have come, and are applied                                             |
//   | reducing | passing  | the means have come, and are applied, and steps overlap                          |
//   | reducing | deciding | the means have come; all ranks must agree on them first                          |
//   | deciding | idle     | the leader has ordered to apply the means, or to leave them out                  |
//   | idle     | done     | the leader has asked for the final state                                         |

#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>
#include <utility>

#include "actors/common/actor_trace.hpp"
#include "actors/trainer/allreduce_client.hpp"
#include "actors/trainer/dense_replica.hpp"
#include "actors/trainer/pipeline_links.hpp"
#include "actors/trainer/sliced_passes.hpp"
#include "actors/trainer/stage_passes.hpp"
#include "actors/trainer/trainer_assignment.hpp"
#include "actors/trainer/trainer_body.hpp"
#include "model/data.hpp"
#include "model/job.hpp"
#include "model/stages.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

enum class stage_phase : std::uint8_t { idle, passing, reducing, deciding, done, failed };

constexpr bool may_follow(stage_phase from, stage_phase to) {
  using enum stage_phase;
  constexpr std::pair<stage_phase, stage_phase> table[] = {
      {idle, passing},  {idle, reducing},    {idle, done},         {passing, idle},  {passing, reducing},
      {reducing, idle}, {reducing, passing}, {reducing, deciding}, {deciding, idle},
  };
  if (to == failed) return from != done && from != failed;
  return std::ranges::find(table, std::pair(from, to)) != std::end(table);
}

/// Belongs to the trainer's actor.
class pipeline_worker final : public trainer_body {
 public:
  /// `assigned`: its job has `stages` if it is a pipeline. Requires: the arguments outlive this object.
  pipeline_worker(trainer_context actor, const trainer_assignment& assigned, const model::stage_place& at,
                  pipeline_links::neighbours beside);

  void begin(msg::train& order) override;
  void stop() override {}  // the leader decides when it ends
  void report(msg::actor_status& now) const override;
  void take(msg::activation&& input) override;
  void take(msg::activation_gradient&& grad) override;
  void take(msg::part_outputs&& outputs) override;
  void take(msg::partial_sum&& share) override;
  void answer(const msg::part_query& query, caf::typed_response_promise<msg::part_state> promise) override;
  void answer(const msg::gradient_norm& query, caf::typed_response_promise<msg::squared_norm> promise) override;
  caf::result<msg::committed> answer(const msg::optimizer_step& order) override;

 private:
  /// A query to be answered later.
  template <class Query, class Answer>
  struct open_query {
    Query query;
    caf::typed_response_promise<Answer> promise;
  };

  void enter(stage_phase next);
  void fail(const caf::error& cause);
  bool is_over() const { return phase_ >= stage_phase::done; }
  bool clips_or_skips() const { return job_.clip_norm > 0 || job_.nan == model::nan_policy::skip; }

  caf::error check(const msg::activation& input) const;
  void proceed();
  void begin_step(const msg::activation& first);
  stage_passes::pass batch_of(const msg::activation& input) const;
  void take_into_stream(msg::activation&& input);
  void advance();
  void passed();
  void send_bucket(std::uint32_t bucket);
  void reduced();
  void end_step();
  void evaluate(const msg::activation& input);
  void take_loss(double loss);
  bool check_finite();
  void answer_queries();

  const model::data_spec& spec() const { return assigned_.data->spec(); }
  std::uint32_t rank_before() const { return actor_.rank - at_.ranks_from_input(); }

  actor_trace& trace_;   ///< the actor's
  std::uint64_t& step_;  ///< the actor's: the current or last step
  const trainer_assignment& assigned_;
  const model::job& job_;  ///< the assignment's
  const allreduce_client group_;
  const model::stage_place at_;
  const pipeline_links links_;  ///< to the parts around it

  dense_replica replica_;
  stage_passes passes_;
  sliced_passes slices_;  ///< destroyed before the replica, whose pass may wait

  stage_phase phase_ = stage_phase::idle;
  std::deque<msg::activation> inputs_;  ///< received and not passed yet
  std::uint64_t update_ = 0;            ///< the open optimizer step
  bool ends_update_ = false;
  bool is_spoilt_ = false;                       ///< a loss of the step is NaN or Inf, so the step is left out
  std::size_t missing_ = 0;                      ///< means that have not come
  std::optional<std::uint64_t> last_of_stream_;  ///< the last step, until the next stage is notified
  std::optional<open_query<msg::gradient_norm, msg::squared_norm>> norm_query_;
  std::optional<open_query<msg::part_query, msg::part_state>> state_query_;
};

}  // namespace troupe::actors
