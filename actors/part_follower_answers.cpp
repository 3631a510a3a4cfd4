// What a trainer with a part of a network answers its leader, and those who ask how it is.

#include <fmt/format.h>

#include <string>
#include <utility>

#include "actors/failure.hpp"
#include "actors/part_follower.hpp"

namespace troupe::actors {

void part_follower::answer(const msg::part_query& query, caf::typed_response_promise<msg::part_state> promise) {
  state_query_ = {query, std::move(promise)};
  answer_queries();
}

void part_follower::answer(const msg::gradient_norm& query, caf::typed_response_promise<msg::squared_norm> promise) {
  norm_query_ = {query, std::move(promise)};
  answer_queries();
}

caf::result<msg::committed> part_follower::answer(const msg::optimizer_step& order) {
  if (phase_ != stage_phase::deciding || order.head.step != step_)
    return make_failure(errc::wrong_context, "an optimizer step for step {}, which is not being decided",
                        order.head.step);
  if (order.apply)
    replica_.apply(order.factor);
  else
    replica_.leave_out();
  end_step();
  msg::committed done{trace_.next(step_, msg::id_of(order.head))};
  go_on();
  return done;
}

/// Answers those whose step has come.
void part_follower::answer_queries() {
  if (norm_query_ && phase_ == stage_phase::deciding && norm_query_->query.head.step == step_) {
    auto [query, promise] = *std::exchange(norm_query_, std::nullopt);
    model::exact_sum sum = replica_.mean_squared_norm();
    const auto limbs = sum.limbs();
    promise.deliver(msg::squared_norm{trace_.next(step_, msg::id_of(query.head)),
                                      msg::blob::own(std::vector<std::int64_t>(limbs.begin(), limbs.end()))});
  }
  const bool rests = phase_ == stage_phase::idle && inputs_.empty() && !slices_.is_waiting();
  if (!state_query_ || !rests || state_query_->query.head.step > step_) return;
  auto [query, promise] = *std::exchange(state_query_, std::nullopt);
  if (query.ends) replica_.look_at_weights(step_);
  if (!judge()) return;
  promise.deliver(
      msg::part_state{trace_.next(step_, msg::id_of(query.head)), replica_.state(), passes_.pass_seconds()});
  if (!query.ends) return;
  enter(stage_phase::done);
  trace_.rests();
  peers_.done(step_, msg::id_of(query.head));
}

// -- status --------------------------------------------------------------------------------------

void part_follower::tell(msg::actor_status& now) const {
  const auto wait_for = [&](std::string what, std::string on) {
    now.waits.push_back({now.name, std::move(what), step_, std::move(on)});
  };
  now.step = step_;
  switch (phase_) {
    case stage_phase::idle:
      now.phase = "idle";
      break;
    case stage_phase::passing:
      now.phase = "passing";
      if (slices_.is_waiting())
        tell_missing_shares(slices_, peers_.rank - at_.slice.slice, step_, now);
      else
        tell_lacking(passes_, rank_before(), peers_.rank + at_.slice.slices, step_, now);
      break;
    case stage_phase::reducing:
      now.phase = "reducing";
      for (std::uint32_t i = 0; i < replica_.buckets(); ++i)
        if (replica_.is_reducing(i)) wait_for(fmt::format("bucket {}", i), "allreduce");
      break;
    case stage_phase::deciding:
      now.phase = "deciding";
      wait_for("the optimizer step", fmt::format("trainer {}", peers_.rank - at_.part()));
      break;
    case stage_phase::done:
      now.phase = "done";
      break;
    case stage_phase::failed:
      break;
  }
  now.queues.push_back(alive_status(at_, job_.micro_batches, passes_.alive()));
}

}  // namespace troupe::actors
