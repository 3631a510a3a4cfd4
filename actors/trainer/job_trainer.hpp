// The body of a trainer of a job. When ordered to train, it opens the data, and either leads a replica of the network
// (`training_loop`) or, with another part of the network, follows the trainer that leads it (`pipeline_worker`).

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "actors/trainer/trainer.hpp"
#include "actors/trainer/trainer_assignment.hpp"
#include "actors/trainer/trainer_body.hpp"

namespace troupe::actors {

/// Belongs to the trainer's actor.
class job_trainer final : public trainer_body {
 public:
  explicit job_trainer(trainer_context actor) : trainer_body(std::move(actor)) {}

  void set_peers(const trainer_peers& all) override { all_ = all; }
  void begin(msg::train& order) override;
  void stop() override;
  void report(msg::actor_status& now) const override;
  void take(msg::activation&& input) override;
  void take(msg::activation_gradient&& grad) override;
  void take(msg::part_outputs&& outputs) override;
  void take(msg::partial_sum&& share) override;
  caf::error check_asker() const override;
  void answer(const msg::part_query& query, caf::typed_response_promise<msg::part_state> promise) override {
    pass_query(query, std::move(promise));
  }
  void answer(const msg::gradient_norm& query, caf::typed_response_promise<msg::squared_norm> promise) override {
    pass_query(query, std::move(promise));
  }
  caf::result<msg::committed> answer(const msg::optimizer_step& order) override;

 private:
  caf::error open(const msg::train& order);
  caf::error lead();
  caf::error follow();
  msg::part_actor part_at(std::uint32_t rank) const;
  bool comes_from(std::uint32_t rank) const;
  bool comes_from_leader() const;
  bool comes_early(std::function<void()> handle_it);
  template <class Message>
  void pass(std::uint32_t from, Message&& message);
  template <class Query, class Promise>
  void pass_query(const Query& query, Promise promise);

  trainer_peers all_;  ///< the other trainers
  bool is_to_stop_ = false;
  std::optional<trainer_assignment> assigned_;  ///< null: the order to train has not come
  std::vector<std::function<void()>> early_;    ///< handlers of messages that came before the order to train
  std::unique_ptr<trainer_body> part_;          ///< leads or follows; null: the order to train has not come
};

/// The behavior of trainer `rank` of a job in run `run` with `servers` parameter servers; spawn with this function.
msg::full_trainer_actor::behavior_type trainer(trainer_state::pointer self, std::uint64_t run, std::uint32_t rank,
                                               std::uint32_t servers);

/// Spawns a trainer of a job (a `trainer_maker`).
made_trainer program_trainer(caf::actor_system& system, std::uint64_t run, std::uint32_t rank, std::uint32_t servers);

}  // namespace troupe::actors
