#include "actors/trainer/trainer.hpp"

#include <fmt/format.h>

#include "actors/common/actor_name.hpp"
#include "actors/common/failure.hpp"
#include "actors/common/traced_system.hpp"

namespace troupe::actors {

void trainer_state::start(std::uint64_t run, std::uint32_t rank, std::uint32_t servers, const body_maker& make) {
  name = fmt::format("trainer {}", rank);
  woken_ = own_execution(self_, devices_of(self_->system()));
  trace.start(self_, self_->system(), run, trainer_number(rank, servers), name);
  body_ = make({.self = self_,
                .name = name,
                .trace = trace,
                .step = step,
                .woken = woken_.get(),
                .rank = rank,
                .servers = servers,
                .fail = [this](const caf::error& cause) { fail(cause); },
                .done = [this](msg::trained&& result) { deliver(std::move(result)); }});
}

caf::result<msg::trained> trainer_state::handle(msg::train& order) {
  if (phase_ != phase::waiting) {
    const caf::error second = failure_of(name, 0, make_failure(errc::wrong_context, "a second order to train"));
    fail(second);
    return second;
  }
  enter(phase::training);
  promise_ = self_->make_response_promise<msg::trained>();
  body_->begin(order);
  return promise_;
}

void trainer_state::fail(const caf::error& cause) {
  if (phase_ == phase::over) return;
  enter(phase::over);
  self_->quit(cause);
}

void trainer_state::deliver(msg::trained&& result) {
  if (phase_ == phase::over) return;
  enter(phase::over);
  const inline_execution::elsewhere there(woken_.get(), self_);
  promise_.deliver(std::move(result));
}

caf::result<msg::actor_status> trainer_state::handle(const msg::actor_query& query) {
  msg::actor_status now{trace.next(step, msg::id_of(query.head)), name, "idle", step, {}, {}};
  body_->report(now);
  return now;
}

msg::full_trainer_actor::behavior_type trainer_with(trainer_state::pointer self, std::uint64_t run, std::uint32_t rank,
                                                    std::uint32_t servers, const body_maker& make) {
  self->state.start(run, rank, servers, make);
  fail_on_exceptions(self);
  return {
      recorded<msg::train>(self),          recorded<msg::stop>(self),
      recorded<msg::trainer_ended>(self),  recorded<msg::actor_query>(self),
      recorded<msg::activation>(self),     recorded<msg::activation_gradient>(self),
      recorded<msg::part_outputs>(self),   recorded<msg::partial_sum>(self),
      recorded<msg::part_query>(self),     recorded<msg::gradient_norm>(self),
      recorded<msg::optimizer_step>(self), recorded<msg::collective_share>(self),
      recorded<msg::collective_sum>(self), recorded<msg::peer_tensor>(self),
      recorded<msg::peer_ended>(self),     recorded<msg::wait_probe>(self),
      recorded<msg::peer_optimizer>(self),
  };
}

made_trainer spawn_trainer(caf::actor_system& system, std::uint64_t run, std::uint32_t rank, std::uint32_t servers,
                           const body_maker& make) {
  const auto made = spawn_computing(system, devices_of(system).trainers, trainer_with, run, rank, servers, make);
  const auto receiver = caf::actor_cast<caf::strong_actor_ptr>(made);
  return {made, [receiver](trainer_peers peers) {
            auto* const self = caf::actor_cast<trainer_state::pointer>(receiver);
            run_in(receiver, [self, peers = std::move(peers)] { self->state.set_peers(peers); });
          }};
}

}  // namespace troupe::actors
